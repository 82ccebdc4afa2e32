"""The README's first commands, as a user runs them."""

import json
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from sluicegate.storage.interface import CommitJob, Table, TableWrite
from sluicegate.storage.store.store import SpoolStore
from support.processes.gateway import FREE_PORTS, PYTHON, GatewayProcess, gateway, wait_until
from support.processes.programs import running

ANSWER_S = 45


@pytest.fixture
def node(tmp_path: Path) -> Iterator[GatewayProcess]:
    with gateway(tmp_path) as process:
        yield process


def says(done: "subprocess.CompletedProcess[str]") -> str:
    """What a command that must succeed printed."""
    assert done.returncode == 0, done.stderr
    return done.stdout


def first_line(command: "subprocess.Popen[str]") -> str:
    assert command.stdout is not None
    readable, _, _ = select.select([command.stdout], [], [], ANSWER_S)
    assert readable, "it prints nothing"
    return command.stdout.readline()


def comes_to_hold(node: GatewayProcess, count: int) -> None:
    """Wait until the queue holds so many: the last word of a command that has ended may still be on its way."""
    wait_until(lambda: node.held_count("orders") == count, within_s=ANSWER_S, what=f"{count} messages in the queue")


def test_the_three_commands_of_the_readme_take_a_message_from_publisher_to_consumer(node: GatewayProcess) -> None:
    created = node.command("queue", "create", "orders", "--partitions", "4", "--subscription", "orders/>")
    assert says(created) == "created non-exclusive queue orders with 4 partitions\n"

    with node.running_command("sub", "--queue", "orders") as consumer:
        published = node.command("pub", "--topic", "orders/eu", "--key", "customer-7", "--message", "hello")
        assert published.returncode == 0
        assert published.stderr == "1 message confirmed\n"
        assert first_line(consumer).startswith("orders/eu hello  JMSXGroupID=customer-7")

        consumer.send_signal(signal.SIGINT)
        _, complaints = consumer.communicate(timeout=ANSWER_S)
        assert complaints == ""
    comes_to_hold(node, 0)


def test_continuous_commands_end_on_a_signal(node: GatewayProcess) -> None:
    """They take the signal: process 1 of a container hears no other. A consumer has acknowledged what it printed."""
    says(node.command("queue", "create", "orders", "--subscription", "orders/>"))
    says(node.command("pub", "--topic", "orders/eu", "--message", "hello"))
    with node.running_command("sub", "--queue", "orders") as consumer:
        assert first_line(consumer).startswith("orders/eu hello")
        consumer.send_signal(signal.SIGTERM)
        assert (consumer.communicate(timeout=ANSWER_S)[1], consumer.returncode) == ("", 0)
    comes_to_hold(node, 0)
    with node.running_command("events", "--follow") as watcher:
        assert "STARTUP_COMPLETE" in first_line(watcher)
        watcher.send_signal(signal.SIGTERM)
        assert (watcher.communicate(timeout=ANSWER_S)[1], watcher.returncode) == ("", 143)


def test_a_refused_message_is_explained(node: GatewayProcess) -> None:
    """What a publisher is told, what `explain` says beforehand, and what operators see afterwards."""
    says(node.command("queue", "create", "orders", "--subscription", "orders/>", "--attribute", "max_msg_size=4"))
    explained = json.loads(says(node.command("explain", "publish", "orders/eu", "--size", "5", "--json")))
    assert (explained["verdict"], explained["destinations"][0]["filter"]) == ("refused", "orders/>")

    published = node.command("pub", "--topic", "orders/eu", "--message", "hello")
    assert published.returncode == 1
    assert explained["reason"] in published.stderr

    several = node.command("pub", "--topic", "orders/eu", "--message", "hello", "--count", "3")
    assert "the gateway refused 3 of 3 messages" in several.stderr
    assert several.stderr.count(explained["reason"]) == 1

    assert "Queue orders created" in says(node.command("events"))
    assert "nothing-waits" in says(node.command("explain", "key", "orders", "customer-7"))


def test_a_message_waits_for_a_consumer(node: GatewayProcess) -> None:
    says(node.command("queue", "create", "orders", "--subscription", "orders/>"))
    says(node.command("pub", "--topic", "orders/eu", "--message", "first", "--message", "second"))
    assert "orders/eu" in says(node.command("queue", "browse", "orders"))

    received = says(node.command("sub", "--queue", "orders", "--count", "2", "--json"))

    assert [json.loads(line)["payload"] for line in received.splitlines()] == ["first", "second"]
    comes_to_hold(node, 0)


def test_a_message_is_published_to_a_queue_by_name(node: GatewayProcess) -> None:
    says(node.command("queue", "create", "orders"))
    says(node.command("pub", "--queue", "orders", "--message", "hello", "--require-match"))
    assert "$queue/orders hello" in says(node.command("sub", "--queue", "orders", "--count", "1"))

    refused = node.command("pub", "--queue", "oders", "--message", "hello")
    assert refused.returncode == 1
    assert "there is no such queue (oders)" in refused.stderr


def test_dead_messages_are_consumed_by_the_name_of_their_queue(node: GatewayProcess) -> None:
    says(node.command("queue", "create", "#DEAD_MSG_QUEUE"))
    says(node.command("queue", "create", "orders"))
    says(node.command("queue", "set", "orders", "respect_ttl_enabled=true", "max_ttl=1"))
    says(node.command("pub", "--queue", "orders", "--message", "late"))
    received = says(node.command("sub", "--queue", "#DEAD_MSG_QUEUE", "--count", "1", "--timeout", str(ANSWER_S)))
    assert received.startswith("$queue/orders late")


def test_a_consumer_that_is_interrupted_gives_back_what_it_did_not_print(node: GatewayProcess) -> None:
    says(node.command("queue", "create", "orders", "--subscription", "orders/>"))
    says(node.command("pub", "--topic", "orders/eu", *(f"--message={number}" for number in range(5))))

    says(node.command("sub", "--queue", "orders", "--count", "2"))

    comes_to_hold(node, 3)


def test_a_publisher_that_waits_for_its_next_line_is_still_there(tmp_path: Path) -> None:
    """Lines go out as they come; and while none comes it answers the gateway, and hears what that says."""
    with gateway(tmp_path) as node:
        says(node.command("queue", "create", "orders", "--subscription", "orders/>"))
        with node.running_command("pub", "--topic", "orders/eu", stdin=subprocess.PIPE) as publisher:
            assert publisher.stdin is not None
            publisher.stdin.write("first\nsecond\nhalf of")
            publisher.stdin.flush()
            comes_to_hold(node, 2)
            node.stop()
            assert publisher.wait(ANSWER_S) == 1
            assert publisher.stderr is not None
            assert "the gateway closed the connection" in publisher.stderr.read()


def test_a_gateway_whose_output_is_closed_keeps_running(tmp_path: Path) -> None:
    """Neither a reader that has gone, nor a full disk behind standard output, is a reason to end, or to end badly."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [*PYTHON, "serve", "--data", str(tmp_path / "data"), *FREE_PORTS]
    with subprocess.Popen(command, stdout=write_end, stderr=subprocess.PIPE, text=True) as node:
        os.close(write_end)
        assert node.stderr is not None
        try:
            assert any("cannot write the endpoints" in line for line in node.stderr)
            node.send_signal(signal.SIGTERM)
            assert any(" stopped" in line for line in node.stderr)
            assert node.wait(ANSWER_S) == 0
        finally:
            node.kill()


def test_a_start_that_admits_nobody_says_so_with_the_command_that_adds_a_user(tmp_path: Path) -> None:
    """A gateway on all addresses needs accounts, and has none when it starts for the first time."""
    words = "no client can log in, because message VPN default has no user; add one: sluicegate user add NAME --url"
    password = tmp_path / "password"
    password.write_text("a secret\n")
    with gateway(tmp_path / "node", **{"listeners.mqtt.host": "0.0.0.0"}) as node:
        wait_until(lambda: words in node.stderr, within_s=ANSWER_S, what="a line about the missing users")
        (line,) = [each for each in node.stderr.splitlines() if words in each]
        assert " listeners.mqtt: no client" in line, "clients of this machine need no account"
        assert f"{words} {node.admin_url}" in line
        says(node.command("user", "add", "ada", "--password-file", str(password), "--url", node.admin_url))
        node.restart()
        assert node.stderr.count(words) == 1


def test_a_queue_that_does_not_exist_is_named_and_fails(node: GatewayProcess) -> None:
    refused = node.command("sub", "--queue", "oders")
    assert refused.returncode == 1
    assert "there is no queue 'oders'" in refused.stderr
    assert "sluicegate queue list" in refused.stderr

    unknown = node.command("queue", "show", "oders")
    assert unknown.returncode == 1
    assert "oders" in unknown.stderr


def test_without_a_gateway_commands_say_where_they_looked(tmp_path: Path) -> None:
    node = GatewayProcess(tmp_path)
    with node:
        pass
    for command in (("queue", "list"), ("pub", "--topic", "a", "--message", "b"), ("sub", "--topic", "a")):
        refused = node.command(*command)
        assert refused.returncode == 3
        assert "cannot reach a gateway at" in refused.stderr
        assert str(node.ports["admin" if command[0] == "queue" else "mqtt"]) in refused.stderr


def test_a_second_gateway_on_the_same_data_folder_is_refused(node: GatewayProcess) -> None:
    second = subprocess.run(
        [*PYTHON, "serve", "--data", str(node.data), *FREE_PORTS],
        capture_output=True,
        text=True,
        timeout=ANSWER_S,
    )
    assert second.returncode == 1
    assert f"the data folder {node.data} is in use by process {node.pid}" in second.stderr
    assert "mistake of ours" not in second.stderr


@pytest.mark.parametrize("row", ["queue/newer", "template/newer"])
def test_rows_of_another_release_are_named_and_reported_as_no_internal_error(tmp_path: Path, row: str) -> None:
    """Who goes back to an older release than the one that wrote the store meets attributes that it does not know."""
    store = SpoolStore.open(tmp_path, map_bytes_max=16 << 20, reserve_bytes=1 << 20)
    value = {"definition": {"name": "newer", "colour": "red"}, "kind": "named", "partition_ids": [1]}
    stored = value if row.startswith("queue") else value["definition"]
    store.commit(CommitJob(number=1, table_writes=[TableWrite(Table.CATALOG, row.encode(), orjson.dumps(stored))]))
    store.close()
    started = subprocess.run(
        [*PYTHON, "serve", "--data", str(tmp_path), *FREE_PORTS],
        capture_output=True,
        text=True,
        timeout=ANSWER_S,
    )
    assert started.returncode == 1
    told = f"error: the data folder {tmp_path} cannot be read: queue"
    assert told in started.stderr
    assert "'newer' was written by another release: colour: " in started.stderr


def test_a_port_that_is_taken_is_named(node: GatewayProcess, tmp_path: Path) -> None:
    taken = f"--set=listeners.mqtt.port={node.mqtt_port}"
    command = [*PYTHON, "serve", "--data", str(tmp_path / "other"), *FREE_PORTS, taken]
    second = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_S)
    assert second.returncode == 1
    assert f"127.0.0.1:{node.mqtt_port}" in second.stderr
    assert "mistake of ours" not in second.stderr


def test_hangup_takes_over_a_changed_configuration(tmp_path: Path) -> None:
    file = tmp_path / "sluicegate.yaml"
    file.write_text("log: {level: info}\n")
    node = GatewayProcess(tmp_path, config_file=file)
    with node:
        file.write_text("log: {level: info}\nqueues: {declared: [{name: orders, subscriptions: ['orders/>']}]}\n")
        node.send_signal(signal.SIGHUP)
        wait_until(lambda: "orders" in says(node.command("queue", "list")), within_s=ANSWER_S, what="the new queue")
        node.send_signal(signal.SIGHUP)
        wait_until(lambda: "no setting differs" in node.stderr, within_s=ANSWER_S, what="word that nothing is new")

        file.write_text("log: {level: loud}\n")
        node.send_signal(signal.SIGHUP)
        wait_until(lambda: "loud" in node.stderr, within_s=ANSWER_S, what="the complaint")
        assert node.is_ready(), "a wrong file must not end a running node"


def test_a_hangup_while_the_node_starts_is_obeyed_when_it_can_be(tmp_path: Path) -> None:
    """The configuration is a pipe, so that the signal comes exactly while it is read for the first time."""
    pipe = tmp_path / "sluicegate.yaml"
    os.mkfifo(pipe)
    ports = ["mqtt", "mqtt_websocket", "amqp", "flow", "http"]
    listeners = ", ".join(f"{name}: {{port: 0}}" for name in ports)
    text = f"listeners: {{{listeners}}}\nadmin: {{enabled: false}}\ndata: {{path: {tmp_path / 'data'}}}\n"
    with running([*PYTHON, "serve", "--config", pipe]) as node:
        with os.fdopen(_written_to(pipe, node), "w") as first:
            node.send_signal(signal.SIGHUP)
            pipe.unlink()
            pipe.write_text(text + "log: {level: debug}\n")
            first.write(text)
        assert node.stderr is not None
        assert any("log.level: info -> debug" in line for line in node.stderr)


def _written_to(pipe: Path, reader: "subprocess.Popen[str]") -> int:
    """Open a pipe for writing as soon as a process reads from it, which must not end before."""
    opened: list[int] = []

    def is_read() -> bool:
        try:
            opened.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:  # nobody reads
            return reader.poll() is not None
        return True

    wait_until(is_read, within_s=ANSWER_S, what="the node to read its configuration")
    assert opened, f"the node ended: {reader.returncode}"
    return opened[0]
