"""A broker under test starts on free ports, and ends and starts again as its test says."""

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest

import sluicegate
from sluicegate.testing import Broker, BrokerFailed
from sluicegate.testing.ports import LOOPBACK
from sluicegate.testing.running import process
from sluicegate.testing.running.process import BrokerProcess
from support.http.plain import HTTP
from support.mqtt.device import WITHIN_S, device
from support.processes.gateway import wait_until


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


def test_every_protocol_has_a_url_at_which_its_clients_are_served(broker: Broker) -> None:
    broker.create_queue("orders", subscriptions=["orders/>"])
    with device(broker, "device") as one:
        one.client.publish("orders/eu", b"mqtt", qos=1).wait_for_publish(WITHIN_S)
    HTTP.post(f"{broker.http_url}/QUEUE/orders", content=b"http").raise_for_status()
    with sluicegate.BlockingClient(broker.flow_url) as flow, flow.publisher() as publisher:
        publisher.publish(sluicegate.Message(b"flow", queue="orders"))
    assert [each.text for each in broker.drain("orders")] == ["mqtt", "http", "flow"]
    assert {name: url.partition(":")[0] for name, url in broker.urls.items()} == {
        "mqtt": "mqtt",
        "mqtt_websocket": "ws",
        "amqp": "amqp",
        "flow": "flow",
        "http": "http",
    }
    assert broker.mqtt_url == f"mqtt://127.0.0.1:{broker.mqtt_port}"
    assert broker.mqtt_websocket_url.endswith("/mqtt")
    assert listens(broker.port("amqp"))


def test_a_port_that_is_not_open_says_how_to_open_it(broker: Broker) -> None:
    with pytest.raises(LookupError, match=r"admin is not open, only mqtt, .*'admin.enabled': True"):
        _ = broker.admin_url
    with pytest.raises(LookupError, match="there is no such port"):
        broker.url("smtp")


def test_the_admin_port_is_there_when_it_is_enabled() -> None:
    with Broker({"admin.enabled": True}, thread=True) as broker:
        broker.create_queue("orders")
        queues = HTTP.get(f"{broker.admin_url}/queues").json()["queues"]
        assert [each["config"]["name"] for each in queues] == ["orders"]


@pytest.mark.parametrize("end", [Broker.stop, Broker.crash])
def test_messages_are_there_after_an_end_and_a_start_on_the_same_ports(broker: Broker, end: object) -> None:
    broker.create_queue("orders")
    broker.publish(sluicegate.Message(b"kept", queue="orders"))
    urls = dict(broker.urls)
    assert callable(end)
    end(broker)
    assert not broker.is_running
    assert not any(listens(broker.port(name)) for name in urls)
    broker.start()
    assert broker.urls == urls
    assert [each.text for each in broker.browse("orders")] == ["kept"]
    broker.restart()
    assert [each.text for each in broker.drain("orders")] == ["kept"]


def test_a_cleared_broker_is_a_new_one_on_the_same_ports(broker: Broker) -> None:
    broker.create_queue("orders")
    broker.publish(sluicegate.Message(b"1", queue="orders"))
    broker.forward(3600)
    urls = dict(broker.urls)
    broker.clear()
    assert (broker.queues(), broker.urls) == ([], urls)
    assert broker.metric("sluicegate_connections_opened_total") == 0
    broker.create_queue("orders")
    broker.publish(sluicegate.Message(b"2", queue="orders", ttl_ms=1_000_000))
    assert [each.sequence for each in broker.browse("orders")] == [1]
    broker.stop()
    broker.clear()
    assert broker.queues() == []


def test_brokers_run_side_by_side() -> None:
    with Broker(thread=True) as one, Broker(thread=True) as other, Broker() as third:
        for broker in (one, other, third):
            broker.create_queue("orders")
        one.publish(sluicegate.Message(b"1", queue="orders"))
        assert [len(each.browse("orders")) for each in (one, other, third)] == [1, 0, 0]
        ports = [each.port(name) for each in (one, other, third) for name in each.urls]
        assert len(set(ports)) == 15


def test_a_broker_is_gone_with_all_it_had_when_its_block_ends() -> None:
    before = threading.active_count()
    for thread in (True, False):
        with Broker(thread=thread) as broker:
            port = broker.mqtt_port
        assert not listens(port)
        assert not broker.folder.exists()
    assert threading.active_count() == before


@pytest.mark.parametrize("thread", [False, True])
def test_only_accounts_are_let_in_where_there_are_some(thread: bool) -> None:
    with Broker(thread=thread, accounts={"ada": "engine", "bob": "builder"}) as broker:
        broker.create_queue("orders")
        broker.publish(sluicegate.Message(b"of the helper", queue="orders"))
        with pytest.raises(sluicegate.AuthenticationRefused):
            sluicegate.BlockingClient(broker.flow_url).__enter__()
        options = sluicegate.ClientOptions(username="bob", password="builder", client_name="bob-1")
        with sluicegate.BlockingClient(broker.flow_url, options):
            broker.wait_for_client("bob-1")


@pytest.mark.parametrize("thread", [False, True])
def test_a_taken_port_is_named(thread: bool) -> None:
    with socket.create_server((LOOPBACK, 0)) as other:
        port = other.getsockname()[1]
        broker = Broker({"listeners.mqtt.port": port}, thread=thread)
        with pytest.raises(
            BrokerFailed, match=rf"did not start: listeners.mqtt.*{port}: another program listens there"
        ):
            broker.start()
        assert not broker.is_running
    broker.start()  # it is free now
    assert broker.mqtt_port == port
    broker.close()


def test_a_port_that_another_program_takes_in_the_last_moment_is_replaced() -> None:
    """Between drawing a port and listening on it."""
    with socket.create_server((LOOPBACK, 0)) as other:
        broker = Broker(thread=True)
        taken = other.getsockname()[1]
        broker._ports["listeners.amqp"] = taken
        with broker:
            assert broker.port("amqp") != taken


def test_a_wrong_setting_is_named_with_those_that_there_are() -> None:
    with pytest.raises(BrokerFailed, match=r"mqtt\.receive_maximum.*65535"):
        Broker({"mqtt.receive_maximum": 0}, thread=True).start()


def test_an_unusable_folder_is_named_and_the_log_tells_of_starts(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no folder")
    with pytest.raises(BrokerFailed, match="not a folder"):
        Broker({"data.path": tmp_path / "data"}).start()
    with Broker() as broker:
        broker.stop()
        assert "SYSTEM_STARTUP_COMPLETE" in broker.log()


def test_a_process_that_ends_by_itself_is_noticed() -> None:
    broker = Broker()
    broker.start()
    place = broker._place
    assert isinstance(place, BrokerProcess)
    os.kill(place.pid, signal.SIGKILL)
    with pytest.raises(BrokerFailed, match="its process has ended"):
        broker.queues()
    with pytest.raises(BrokerFailed, match="did not stop in good order: its process has ended"):
        broker.close()
    assert not broker.folder.exists()


def test_what_python_ignores_in_its_path_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It imports from texts only."""
    monkeypatch.setattr(sys, "path", [*sys.path, tmp_path])
    own = process.Template()
    monkeypatch.setattr(process, "_template", own)
    try:
        with Broker() as broker:
            assert broker.queues() == []
    finally:
        own.end()


def test_what_comes_before_the_start_says_so() -> None:
    broker = Broker()
    with pytest.raises(BrokerFailed, match="the broker is not started"):
        _ = broker.mqtt_url
    with pytest.raises(BrokerFailed, match="the broker is not started"):
        broker.create_queue("orders")
    with broker:
        broker.stop()
        with pytest.raises(BrokerFailed, match="the broker is stopped"):
            broker.queues()


def test_accounts_are_given_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not both"):
        Broker(accounts={"ada": "engine"}, config_file=tmp_path / "gateway.yaml")


def test_a_configuration_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text("http:\n  max_message_size: 1KiB\n")
    with Broker(config_file=file, thread=True) as broker:
        broker.create_queue("orders")
        with pytest.raises(httpx.HTTPStatusError, match="413"):
            HTTP.post(f"{broker.http_url}/QUEUE/orders", content=b"x" * 2000).raise_for_status()


def test_brokers_end_with_the_process_of_the_test(tmp_path: Path) -> None:
    """However that ends: here it is killed."""
    program = "from sluicegate.testing import Broker\nb = Broker(); b.start(); print(b.mqtt_port, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", f"import sys\nsys.path[:] = {sys.path!r}\n{program}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        port = int(running.stdout.readline())
        assert listens(port)
        running.send_signal(signal.SIGKILL)
    wait_until(lambda: not listens(port), within_s=WITHIN_S, what="the port is closed")
