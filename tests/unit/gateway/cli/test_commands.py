"""The commands against a real admin server: output, exit codes, and advice instead of tracebacks."""

import os
import re
import socket
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from sluicegate.gateway.build import release
from sluicegate.gateway.cli import app, main
from sluicegate.gateway.cli.commands.node.actors import tree
from sluicegate.gateway.cli.commands.queues.explain import REASONS
from sluicegate.gateway.cli.terminal.failures import FAILED, OK, UNREACHABLE, USAGE, CommandFailed, report
from sluicegate.gateway.views.node.runtime import ActorView, EventView
from sluicegate.gateway.views.queues.explanations import CheckView, DestinationView
from sluicegate.gateway.views.queues.queues import FlowView
from sluicegate.messaging.partitions.explain import WaitReason
from sluicegate.protocols.security.scram import password_matches
from support.operations.memory_node import MemoryNode, cursor_view_of
from support.operations.running_admin import RunningAdmin
from support.operations.shell import Shell


def test_a_command_whose_reader_has_gone_ends_in_good_order(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """`sluicegate queue list | head -0` is no failure."""
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        monkeypatch.setenv("SLUICEGATE_URL", shell.url)
        with pytest.raises(SystemExit) as ended:
            main(["queue", "list"])
    assert ended.value.code == OK


def test_errors_are_printed_without_terminal_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A gateway's answer may quote a name that a client chose."""
    report(CommandFailed("no queue a\x1b[2J\u202eb\nand no other", advice="See \x9b31m."))
    told = capsys.readouterr().err
    assert told == "error: no queue a\\x1b[2J\\u202eb\nand no other\nSee \\x9b31m.\n"


@pytest.fixture
def nobody() -> Shell:
    """A shell whose gateway is not there: the port was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return Shell(f"http://127.0.0.1:{port}")


class Redirecting(BaseHTTPRequestHandler):
    """Says that the admin port is elsewhere."""

    elsewhere = ""

    def do_GET(self) -> None:
        """Answer any request for something."""
        self.send_response(302)
        self.send_header("Location", self.elsewhere + self.path)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing on standard error."""


def test_credentials_do_not_follow_a_redirect(admin: RunningAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    """RFC 9110 15.4: a user agent that follows by itself should take credentials nowhere else; this follows nowhere."""
    monkeypatch.setattr(Redirecting, "elsewhere", admin.url)
    with ThreadingHTTPServer(("127.0.0.1", 0), Redirecting) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            shell = Shell(f"http://127.0.0.1:{server.server_port}", SLUICEGATE_ADMIN_PASSWORD="secret")
            told = shell.run("--admin-username", "ada", "queue", "list", expect=FAILED)
        finally:
            server.shutdown()
            thread.join()
    assert f"redirects to '{admin.url}/queues'" in told


def test_messages_of_another_broker_come_with_its_name(shell: Shell, node: MemoryNode) -> None:
    shell.run("queue", "create", "q")
    node.publish("q", b"one")
    node.messages["q"] = [replace(each, broker="b") for each in node.messages["q"]]
    assert shell.run("queue", "browse", "q") == "at broker b\n\n0:1 orders/new\n  one (text)\n"
    assert orjson.loads(shell.run("queue", "browse", "q", "--json"))["broker"] == "b"


def test_that_a_queue_has_no_messages_is_told_apart_from_its_messages(shell: Shell, admin: RunningAdmin) -> None:
    shell.run("queue", "create", "q")
    browsed = CliRunner().invoke(app, ["queue", "browse", "q", "--json", "--url", admin.url])
    assert (browsed.exit_code, browsed.stdout, browsed.stderr) == (0, "", "no messages\n")


def test_a_queue_lives_its_life_on_the_command_line(shell: Shell, node: MemoryNode) -> None:
    created = shell.run("queue", "create", "orders/eu", "--partitions", "4", "-s", "orders/eu/>", "-a", "max_ttl=60")
    assert created == "created non-exclusive queue orders/eu with 4 partitions\n"
    assert node.definitions["orders/eu"].config.max_ttl == 60
    node.publish("orders/eu", b"[bold]hello", key="c7", delivery_count=1)

    assert "orders/eu  non-exclusive           4      1" in shell.run("queue", "list")
    assert "subscriptions: orders/eu/>" in shell.run("queue", "show", "orders/eu")
    assert shell.run("queue", "browse", "orders/eu") == ("0:1 orders/new key=c7 deliveries=1\n  [bold]hello (text)\n")
    assert shell.run("queue", "purge", "orders/eu", "--yes") == "removed 1 message from orders/eu\n"
    assert shell.run("queue", "delete", "orders/eu", "-y") == "deleted orders/eu\n"
    assert node.definitions == {}


def events_of(*numbers: int, time_ms: int = 1_700_000_000_000) -> list[EventView]:
    return [
        EventView(
            number=number,
            time_ms=time_ms,
            level="info",
            scope="CLIENT",
            event="CLIENT_CLIENT_CONNECT",
            text=f"CLIENT: CLIENT_CLIENT_CONNECT: default c{number}\x1b[2J connected",
        )
        for number in numbers
    ]


def test_events_are_followed_also_when_the_gateway_begins_anew(
    shell: Shell, node: MemoryNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its events have numbers from 1 on, and where it has told of more by then, one looks like the last one known."""
    anew = {"time_ms": 1_700_000_060_000}
    looks = iter([events_of(1, 2, 3, 4), events_of(1, **anew), events_of(1, 2, **anew), events_of(1, 2, **anew)])

    def passes(seconds: float) -> None:
        node.happened = next(looks, [])
        if not node.happened:
            raise KeyboardInterrupt

    monkeypatch.setattr("sluicegate.gateway.cli.commands.node.events.time.sleep", passes)
    node.happened = events_of(1, 2, 3)
    told = [orjson.loads(line) for line in shell.run("events", "--follow", "--json").splitlines()]
    assert [each["number"] for each in told] == [1, 2, 3, 4, 1, 2]


def test_events_are_printed_oldest_first_and_harmlessly(shell: Shell, node: MemoryNode) -> None:
    node.happened = events_of(1, 2, 3)
    lines = shell.run("events", "--limit", "2").splitlines()
    assert lines == [
        f"2023-11-14T22:13:20.000Z info    CLIENT: CLIENT_CLIENT_CONNECT: default c{number}\\x1b[2J connected"
        for number in (2, 3)
    ]
    assert orjson.loads(shell.run("events", "--limit", "1", "--json"))["number"] == 3


def test_a_publish_is_explained_with_its_checks(shell: Shell, node: MemoryNode) -> None:
    check = CheckView(
        check="endpoint_usage_exceeded",
        usage=90,
        adds=20,
        limit=100,
        unit="bytes",
        refused=True,
        publisher_hears=True,
        reason="503 Spool Over Quota",
    )
    node.destination = DestinationView(
        kind="queue",
        name="orders",
        filter="orders/>",
        verdict="refused",
        reason=check.reason,
        queue="orders",
        partition=3,
        partition_reason="hash",
        checks=(check,),
    )
    shown = shell.run("explain", "publish", "orders/eu", "--key", "c7", "--size", "20")
    assert "queue  orders  orders/>  refused          3  503 Spool Over Quota" in shown
    assert "endpoint_usage_exceeded     90    20  100    bytes  refused" in shown
    answer = orjson.loads(shell.run("explain", "publish", "orders/eu", "--key", "c7", "--json"))
    assert (answer["topic"], answer["key"], answer["destinations"][0]["partition"]) == ("orders/eu", "c7", 3)
    described = ("--username", "ada", "--property", "amount=11", "--property", "kind=test", "--deliver-to-one")
    shell.run("explain", "publish", "orders/eu", *described)
    asked = node.explained
    assert (asked.client_username, asked.deliver_to_one) == ("ada", True)
    assert asked.properties == (("amount", 11), ("kind", "test"))
    assert "'kind' is not NAME=VALUE" in shell.run("explain", "publish", "t", "-P", "kind", expect=USAGE)
    assert "give either a TOPIC" in shell.run("explain", "publish", expect=USAGE)
    assert "there is no queue 'q'" in shell.run("explain", "publish", "--queue", "q", expect=FAILED)


def test_a_key_is_explained_in_words(shell: Shell) -> None:
    shell.run("queue", "create", "orders", "--partitions", "4")
    shown = shell.run("explain", "key", "orders", "customer-7")
    assert "3 (hash 0x0007), ready" in shown
    assert "window-full: the consumer holds as many unsettled messages as it accepts (Receive Maximum, credit)" in shown
    assert orjson.loads(shell.run("explain", "key", "orders", "customer-7", "--json"))["reason"] == "window-full"


def test_every_reason_to_wait_has_words() -> None:
    assert set(REASONS) == set(WaitReason)


def test_the_page_of_operations_gives_the_same_reasons() -> None:
    page = (Path(__file__).resolve().parents[4] / "docs/operate/operations.md").read_text(encoding="utf-8")
    table = page.partition("`explain key` shows")[2].partition("\n\nThe command")[0]
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", table, re.MULTILINE))
    references = re.compile(r" \(\[[^]]*\]\([^)]*\)\)$")
    plain = {name: re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", references.sub("", text)) for name, text in rows.items()}
    assert {name: text.replace("`", "") for name, text in plain.items()} == {**REASONS}


def test_every_answer_can_be_json(shell: Shell, node: MemoryNode) -> None:
    assert orjson.loads(shell.run("queue", "create", "q", "--json"))["config"]["name"] == "q"
    node.publish("q", b"x")
    assert orjson.loads(shell.run("queue", "list", "--json"))[0]["ready_count"] == 1
    assert orjson.loads(shell.run("queue", "show", "q", "--json"))["partitions"][0]["next_sequence"] == 2
    assert orjson.loads(shell.run("queue", "browse", "q", "--json"))["payload"] == "x"
    assert orjson.loads(shell.run("queue", "purge", "q", "--yes", "--json")) == {"purged_count": 1}
    assert orjson.loads(shell.run("queue", "delete", "q", "--yes", "--json")) == {"deleted": "q"}
    assert orjson.loads(shell.run("actors", "--json")) == []
    assert orjson.loads(shell.run("version", "--json")).keys() == {"version", "compiled", "python"}
    assert shell.run("--version") == shell.run("version") == f"sluicegate {release()}\n"
    assert orjson.loads(shell.run("check-config", "--json"))["listeners"]["mqtt"]["port"] == 1883


def test_topics_of_an_existing_queue_are_added_and_removed(shell: Shell, node: MemoryNode) -> None:
    shell.run("queue", "create", "q", "-s", "a/b")
    said = shell.run("queue", "subscribe", "q", "orders/>", "!orders/test/>", "a/b")
    assert said.splitlines()[:2] == ["q subscribes to orders/>", "q subscribes to !orders/test/>"]
    assert list(node.definitions["q"].subscriptions) == ["a/b", "orders/>", "!orders/test/>"]
    assert shell.run("queue", "unsubscribe", "q", "a/b") == "q no longer subscribes to a/b\n"
    assert list(node.definitions["q"].subscriptions) == ["orders/>", "!orders/test/>"]
    assert "there is no subscription 'a/b'" in shell.run("queue", "unsubscribe", "q", "a/b", expect=FAILED)
    assert "there is no queue 'none'" in shell.run("queue", "subscribe", "none", "a", expect=FAILED)


def test_a_queue_is_replayed(shell: Shell, node: MemoryNode) -> None:
    shell.run("queue", "create", "q", "-a", "retention_size_mb=1")
    assert shell.run("queue", "replay", "q", "--from", "beginning").strip() == "7 messages of q will be delivered again"
    assert orjson.loads(shell.run("queue", "replay", "q", "--from", "5", "--json")) == {"replayed_count": 7}
    assert "'tomorrow' is not allowed" in shell.run("queue", "replay", "q", "--from", "tomorrow", expect=FAILED)


def test_a_queue_is_moved_to_another_broker_and_the_move_is_shown_and_cancelled(shell: Shell, node: MemoryNode) -> None:
    shell.run("queue", "create", "q")
    assert "is being moved to b" in shell.run("queue", "move", "q", "--to", "b")
    shown = shell.run("queue", "moves").split()
    assert shown[-8:] == ["q", "b", "2023-11-14T22:13:20Z", "12", "of", "46", "goes", "on"]
    assert "moving to b: 12 of 46 messages since 2023-11-14T22:13:20Z; goes on" in shell.run("queue", "show", "q")
    assert shell.run("queue", "list").splitlines()[-1].split()[-6:] == ["to", "b:", "12", "of", "46", "messages"]
    assert orjson.loads(shell.run("queue", "moves", "--json"))[0]["left_count"] == 34
    assert shell.run("queue", "move", "q", "--cancel").strip() == "q stays"
    assert node.moves == []
    assert "not being moved" in shell.run("queue", "move", "q", "--cancel", expect=FAILED)
    assert "no link to broker 'c'" in shell.run("queue", "move", "q", "--to", "c", expect=FAILED)
    assert "or give --cancel" in shell.run("queue", "move", "q", expect=USAGE)
    assert "or give --cancel" in shell.run("queue", "move", "q", "--to", "b", "--without", "b", expect=USAGE)


def test_what_a_move_deletes_is_asked_for_before(shell: Shell, node: MemoryNode) -> None:
    shell.run("queue", "create", "q")
    said = shell.run("queue", "move", "q", "--to", "b", "--drop-kept", answered="n\n", expect=FAILED)
    assert "Delete what q keeps for replay, and its durable cursors?" in said
    shell.run("queue", "move", "q", "--to", "b", "--drop-kept", "--yes")
    assert node.dropped
    said = shell.run("queue", "move", "q", "--without", "b", answered="n\n", expect=FAILED)
    assert "Messages that only broker b has are lost." in said
    assert node.moves
    said = shell.run("queue", "move", "q", "--without", "c", "--yes", expect=FAILED)
    assert "neither to broker 'c' nor from there" in said
    assert "q is at this broker" in shell.run("queue", "move", "q", "--without", "b", "--yes")
    assert node.moves == []


def test_durable_cursors_are_listed_and_forgotten(shell: Shell, node: MemoryNode) -> None:
    shell.run("queue", "create", "q")
    node.cursors = [cursor_view_of("archive")]
    assert "archive" in shell.run("queue", "cursors", "q")
    assert orjson.loads(shell.run("queue", "cursors", "q", "--json"))[0]["lag_bytes"] == 600
    assert "nothing was changed" in shell.run("queue", "delete-cursor", "q", "archive", answered="n\n", expect=FAILED)
    assert shell.run("queue", "delete-cursor", "q", "archive", "--yes").strip() == "deleted cursor archive of q"
    assert node.cursors == []


def test_nothing_is_deleted_without_a_yes(shell: Shell, node: MemoryNode) -> None:
    shell.run("queue", "create", "q")
    assert "nothing was changed" in shell.run("queue", "delete", "q", answered="n\n", expect=FAILED)
    assert "q" in node.definitions
    shell.run("queue", "delete", "q", answered="y\n")
    assert node.definitions == {}


def test_flows_are_shown_with_their_partitions(shell: Shell, node: MemoryNode) -> None:
    shell.run("queue", "create", "q", "--partitions", "2")
    flow = FlowView(
        id="f1",
        client="worker-1",
        protocol="mqtt5",
        window=100,
        unacked_count=3,
        active=True,
        activity="active-consumer",
        partitions=(0, 1),
    )
    node.flows["q"] = [flow]
    assert "f1    worker-1  mqtt5     active-consumer     100        3  0, 1" in shell.run("queue", "show", "q")
    assert "selectors of its consumers differ" not in shell.run("queue", "show", "q")
    node.flows["q"].append(replace(flow, id="f2", selector="color = 'red'"))
    assert "the selectors of its consumers differ: a message" in shell.run("queue", "show", "q")


def test_attributes_are_set_all_at_once(shell: Shell, node: MemoryNode) -> None:
    shell.run("queue", "create", "q")
    assert "changed queue q" in shell.run("queue", "set", "q", "max_ttl=5", "ingress_enabled=false")
    config = node.definitions["q"].config
    assert (config.max_ttl, config.ingress_enabled) == (5, False)
    told = shell.run("queue", "set", "q", "max_ttl=6", "max_bind_count=-1", expect=USAGE)
    assert "max_bind_count: '-1' is not allowed; allowed: a whole number from 0 to 10000" in told
    assert node.definitions["q"].config.max_ttl == 5


def test_templates_are_created_shown_changed_and_deleted(shell: Shell, node: MemoryNode) -> None:
    attributes = ("max_ttl=5", "max_bind_count=3", "respect_ttl_enabled=true")
    shell.run("template", "create", "eu", "--for", "orders/eu/>", *attributes)
    listed = shell.run("template", "list")
    assert "eu    orders/eu/>  none" in listed
    assert ", ".join(attributes) in listed, "as create and set take them"
    assert "true" in shell.run("template", "show", "eu")
    shell.run("template", "set", "eu", "durability_override=non-durable", "max_ttl=", "max_bind_count=4")
    shell.run("template", "set", "eu", "respect_ttl_enabled=")
    shown = orjson.loads(shell.run("template", "show", "eu", "--json"))
    assert shown == {
        "name": "eu",
        "queue_name_filter": "orders/eu/>",
        "durability_override": "non-durable",
        "max_bind_count": 4,
    }
    assert "already" in shell.run("template", "create", "eu", "--for", "x", expect=FAILED)
    assert "no such attribute" in shell.run("template", "set", "eu", "owner=me", expect=FAILED)
    shell.run("template", "delete", "eu")
    assert node.templates == {}
    assert "there is no queue template 'eu'" in shell.run("template", "show", "eu", expect=FAILED)


def test_messages_are_followed_until_enough_have_come(shell: Shell, node: MemoryNode) -> None:
    shell.run("queue", "create", "q")
    for payload in (b"one", b"two", b"three"):
        node.publish("q", payload)
    told = shell.run("queue", "browse", "q", "--follow", "--limit", "2", "--json")
    assert [orjson.loads(line)["payload"] for line in told.splitlines()] == ["one", "two"]


def test_messages_are_browsed_harmlessly(shell: Shell, node: MemoryNode) -> None:
    """Whoever may publish must not write on an operator's terminal."""
    shell.run("queue", "create", "q")
    node.publish("q", b"one\x1b[2J\ntwo", key="\x1b[2J")
    assert shell.run("queue", "browse", "q") == "0:1 orders/new key=\\x1b[2J\n  one\\x1b[2J\\ntwo (text)\n"


def test_refusals_are_printed_in_the_words_of_the_gateway(shell: Shell) -> None:
    assert "there is no queue 'none'" in shell.run("queue", "show", "none", expect=FAILED)
    assert "'a//b' has an empty level" in shell.run("queue", "create", "a//b", expect=FAILED)
    shell.run("queue", "create", "q")
    assert "there is a queue 'q' already" in shell.run("queue", "create", "q", expect=FAILED)


def test_a_wrong_attribute_is_a_mistake_in_the_command_line(shell: Shell) -> None:
    told = shell.run("queue", "create", "q", "-a", "max_ttl=soon", expect=USAGE)
    assert "max_ttl: 'soon' is not allowed; allowed: a whole number from 0 to 4294967295" in told
    assert "Attributes: access_type, " in shell.run("queue", "create", "q", "-a", "ttl=5", expect=USAGE)


@pytest.mark.parametrize("command", [["queue", "list"], ["queue", "delete", "q"], ["actors", "--once"]])
def test_a_gateway_that_is_not_there_is_exit_code_three(nobody: Shell, command: list[str]) -> None:
    told = nobody.run(*command, expect=UNREACHABLE)
    assert "cannot reach a gateway at http://127.0.0.1:" in told
    assert "--url or SLUICEGATE_URL" in told


@pytest.mark.parametrize(
    "url",
    [
        *("localhost:8080", "http://", "http://[::1", "http://localhost:80x", "http://localhost:0", "http://a:b@host"),
        *("http://a b:1", "http://localhost:1/a b", "http://localhost:1/\u00fc"),
    ],
)
def test_an_invalid_address_is_a_usage_error(nobody: Shell, url: str) -> None:
    assert f"'{url}' is not the address of an admin port" in nobody.run("queue", "list", "--url", url, expect=USAGE)


@pytest.mark.parametrize("token", ["", "to\u20acken", "\ufefftoken", "to\rken"])
def test_characters_that_no_request_can_carry_are_refused_in_tokens(nobody: Shell, tmp_path: Path, token: str) -> None:
    file = tmp_path / "token"
    file.write_text(token + "\n", newline="")
    told = nobody.run("--admin-token-file", str(file), "queue", "list", expect=USAGE)
    assert f"the first line of {file} is not a bearer token" in told


def test_answers_in_another_protocol_are_not_printed_on_the_terminal() -> None:
    """An AMQP port answers with its own header, and a program that is hostile with whatever a terminal does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]

        def answer() -> None:
            stream, _ = server.accept()
            with stream:
                stream.recv(65536)
                stream.sendall(b"AMQP\x00\x01\x00\x00\x1b[31m\r\n")

        answering = threading.Thread(target=answer)
        answering.start()
        told = Shell(f"http://127.0.0.1:{port}").run("queue", "list", expect=UNREACHABLE)
        answering.join()
    assert f"http://127.0.0.1:{port}: the server there does not speak HTTP" in told
    assert "AMQP" not in told


@pytest.mark.parametrize("command", [["pub", "-t", "a", "-m", "x"], ["sub", "-t", "a"]])
def test_an_mqtt_port_that_is_not_there_is_exit_code_three(nobody: Shell, command: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    assert "Is it running" in nobody.run(*command, "--port", str(port), expect=UNREACHABLE)


def test_keys_and_properties_need_mqtt_5(nobody: Shell) -> None:
    told = nobody.run("pub", "-t", "a", "-m", "x", "--key", "k", "--protocol", "3.1.1", expect=USAGE)
    assert "--key needs MQTT 5; MQTT 3.1.1 has no properties" in told
    assert "NAME=VALUE" in nobody.run("pub", "-t", "a", "-m", "x", "-P", "novalue", expect=USAGE)


def test_a_subscription_to_nothing_is_a_usage_error(nobody: Shell) -> None:
    assert "Give --topic or --queue." in nobody.run("sub", expect=USAGE)


def test_a_wrong_configuration_is_exit_code_two_with_its_place(nobody: Shell, tmp_path: Path) -> None:
    file = tmp_path / "gate.yaml"
    file.write_text("log:\n  level: loud\n")
    for command in ("serve", "check-config"):
        told = nobody.run(command, "--config", str(file), expect=USAGE)
        assert f"{file}:2:10: log.level: 'loud' is not allowed" in told


def test_check_config_prints_every_setting_with_what_is_allowed(nobody: Shell) -> None:
    printed = nobody.run("check-config", "--set", "listeners.mqtt.port=0", "--set", "data.path=there", "--data", "here")
    assert "listeners.mqtt.port = 0  # a whole number from 0 to 65535" in printed
    assert "log.audit_file = none  # a path" in printed
    assert "data.path = there  # a path" in printed, "--set beats all else"


def test_a_hashed_password_is_one_that_the_configuration_accepts(nobody: Shell) -> None:
    assert nobody.run("hash-password", typed="hunter2\n").startswith("$argon2id$")
    nobody.run("hash-password", typed="\n", expect=USAGE)


def test_a_password_is_stored_so_that_scram_can_use_it(nobody: Shell) -> None:
    stored = nobody.run("hash-password", "--scram", "--iterations", "20000", typed="hunter2\n").strip()
    assert stored.startswith("SCRAM-SHA-256$20000:")
    assert password_matches(stored, b"hunter2")
    stored = nobody.run("hash-password", "--sha-512", typed="hunter2\n").strip()
    assert stored.startswith("SCRAM-SHA-512$15000:")
    assert password_matches(stored, b"hunter2")
    nobody.run("hash-password", "--scram", "--iterations", "4096", typed="hunter2\n", expect=USAGE)
    assert "SCRAM cannot use" in nobody.run("hash-password", "--scram", typed="a\u0001\u00e4\n", expect=USAGE)


def test_actors_are_a_tree_that_shows_trouble(shell: Shell, node: MemoryNode) -> None:
    def actor(name: str, *children: ActorView, restarts: int = 0) -> ActorView:
        return ActorView(
            name=name,
            path=name,
            kind="partition",
            state="running",
            inbox_depth=2,
            handled_count=10,
            batch_count=5,
            batch_size_mean=2.0,
            handling_time_us=7.5,
            restart_count=restarts,
            children=children,
        )

    node.actors = [actor("root", actor("[child]", restarts=3))]
    printed = shell.run("actors", "--once")
    assert "root  partition  inbox 2  handled 10  batch 2.0  7.5 us" in printed
    assert "[child]  partition" in printed
    assert "restarts 3" in printed
    assert len(tree(node.actors).children) == 1


def test_a_mistake_of_ours_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], admin: RunningAdmin, node: MemoryNode
) -> None:
    """Whatever goes wrong inside, a user sees no traceback unless asked for."""
    monkeypatch.setattr("sluicegate.gateway.cli.admin.client.quote", None)
    with pytest.raises(SystemExit) as end:
        main(["queue", "show", "q", "--url", admin.url])
    assert end.value.code == FAILED
    told = capsys.readouterr().err
    assert "internal error: TypeError" in told
    assert "Set SLUICEGATE_TRACEBACK=1 for a traceback." in told
    assert "Traceback" not in told


def test_delivery_points_are_shown_with_what_holds_them_up(shell: Shell) -> None:
    """Solace 9.4: show rest-delivery-point."""
    shown = shell.run("show", "rest-delivery-point")
    assert "connection refused" in shown
    assert "accepted 4" in shown
    assert '"up":false' in shell.run("show", "rest-delivery-point", "--json")


def test_a_mistyped_attribute_is_corrected(shell: Shell) -> None:
    shell.run("queue", "create", "orders")
    said = shell.run("queue", "set", "orders", "max_bind_cuont=3", expect=USAGE)
    assert "max_bind_cuont: there is no such attribute (did you mean 'max_bind_count'?)" in said
