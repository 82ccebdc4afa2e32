"""What bridges do alike over MQTT 5, AMQP 1.0 and the flow protocol: pauses, files that change, refusals."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from sluicegate.gateway.operations.node import NodeOperations
from support.bridges.brokers import all_up, another_broker, configure, connect, rule, shows
from support.broker.named_queues import change, create
from support.broker.named_queues import shown as queue_shown
from support.broker.named_queues import shows as queue_shows
from support.broker.running_broker import RunningBroker
from support.network.certificates import make_certificates

MANY: Final = 600  # messages: some are under way whenever something happens
WINDOW: Final = 20
PORTS: Final[dict[str, Callable[[RunningBroker], int]]] = {
    "mqtt": lambda broker: broker.port,
    "amqp": lambda broker: broker.amqp_port,
    "flow": lambda broker: broker.flow_port,
}


@pytest.fixture(params=[*PORTS])
def protocol(request: pytest.FixtureRequest) -> str:
    """What the bridge speaks."""
    return str(request.param)


def url_of(broker: RunningBroker, protocol: str) -> str:
    return f"{protocol}://127.0.0.1:{PORTS[protocol](broker)}"


def to_queue(protocol: str, queue: str) -> dict[str, str]:
    """Return an outgoing rule from the queue `q` to a queue there that subscribes to `got/>`."""
    if protocol == "mqtt":
        return {"queue": "q", "strip_prefix": "out/", "add_prefix": "got/"}
    return {"queue": "q", "remote_queue": queue}


def from_queue(protocol: str, queue: str) -> dict[str, str]:
    """Return an incoming rule from a queue there to the queue `back`."""
    if protocol == "mqtt":
        return {"remote_topic": f"$queue/{queue}", "queue": "back"}
    return {"remote_queue": queue, "queue": "back"}


async def fill(broker: RunningBroker, topic: str, count: int, payload: bytes = b"x") -> None:
    publisher = await broker.connect()
    for _ in range(count):
        await publisher.publish(topic, payload, qos=1)


async def pause_and_resume(broker: RunningBroker) -> None:
    """Pause the bridge while messages are under way, and let it go on."""
    await shows(broker, lambda view: view.up and view.rules[0].messages > 0)
    await NodeOperations(broker.node).pause_bridge("b")
    view = await shows(broker, lambda view: view.state == "paused")
    assert 0 < view.rules[0].messages < MANY, "it was in the middle"
    assert view.rules[0].unconfirmed == 0
    await NodeOperations(broker.node).resume_bridge("b")


async def test_a_pause_in_the_middle_of_a_window_doubles_nothing_that_goes_out(
    broker: RunningBroker, tmp_path: Path, protocol: str
) -> None:
    """It waits for what is under way; the rest stays in the queue, and goes after it is resumed."""
    await create(broker, "q", subscriptions=["out/>"])
    await fill(broker, "out/x", MANY)
    async with another_broker(tmp_path) as other:
        await create(other, "got", subscriptions=["got/>"])
        told = {"remote_url": url_of(other, protocol), "window_messages": WINDOW}
        await configure(broker, {**told, "outgoing": [to_queue(protocol, "got")]})
        await pause_and_resume(broker)
        await queue_shows(broker, lambda queue: not queue.ready_count and not queue.unacked_count)
        assert (await queue_shown(other, "got")).ready_count == MANY


async def test_a_pause_in_the_middle_of_a_window_loses_nothing_that_comes_in(
    broker: RunningBroker, tmp_path: Path, protocol: str
) -> None:
    """What is stored is confirmed before it disconnects."""
    await create(broker, "back")
    async with another_broker(tmp_path) as other:
        await create(other, "theirs", subscriptions=["in/>"])
        await fill(other, "in/x", MANY)
        told = {"remote_url": url_of(other, protocol), "window_messages": WINDOW}
        await configure(broker, {**told, "incoming": [from_queue(protocol, "theirs")]})
        await pause_and_resume(broker)
        await queue_shows(other, lambda queue: not queue.ready_count and not queue.unacked_count, "theirs")
        assert (await queue_shown(broker, "back")).ready_count >= MANY


async def test_a_password_file_is_read_for_each_connection(
    broker: RunningBroker, tmp_path: Path, protocol: str
) -> None:
    """An orchestrator replaces it, and sends no signal."""
    password = tmp_path / "password"
    password.write_text("wrong\n")
    async with another_broker(tmp_path, me="right") as other:
        told: dict[str, Any] = {"remote_url": url_of(other, protocol), "username": "me", "password_file": str(password)}
        await configure(broker, {**told, "outgoing": [{"topic": "a/#"}]})
        await shows(broker, lambda view: view.failures >= 1 and view.state == "waiting")
        password.unlink()
        await shows(broker, lambda view: view.failures >= 2)
        password.write_text("right\n")
        await shows(broker, all_up)


async def test_certificate_files_are_read_for_each_connection(
    broker: RunningBroker, tmp_path: Path, protocol: str
) -> None:
    made, others = (make_certificates(_folder(tmp_path / name)) for name in ("made", "others"))
    authority = tmp_path / "authority.pem"
    authority.write_bytes(others.authority.read_bytes())
    listener = f"listeners.{protocol}_tls"
    async with another_broker(tmp_path, *made.in_tls(listener)) as other:
        told = {"remote_url": _tls_url(other, protocol), "tls_authorities_file": str(authority)}
        await configure(broker, {**told, "outgoing": [{"topic": "a/#"}]})
        view = await shows(broker, lambda view: view.failures >= 1)
        assert "certificate verify failed" in view.reason
        authority.write_bytes(b"half a fi")
        view = await shows(broker, lambda view: "authority.pem" in view.reason)
        authority.write_bytes(made.authority.read_bytes())
        await shows(broker, all_up)


async def test_a_failed_handshake_of_tls_is_the_reason(broker: RunningBroker, tmp_path: Path, protocol: str) -> None:
    made = make_certificates(_folder(tmp_path / "made"))
    listener = f"listeners.{protocol}_tls"
    rules = {"outgoing": [{"topic": "a/#"}], "tls_authorities_file": str(made.authority)}
    async with another_broker(tmp_path, *made.in_tls(listener), f"{listener}.client_ca={made.authority}") as other:
        url = _tls_url(other, protocol)
        plain_port = url_of(other, protocol).replace("://", "s://")
        for wrong, reason in ((plain_port, "tls"), (url, "certificate required")):
            await configure(broker, {**rules, "remote_url": wrong})
            view = await shows(broker, lambda view: view.failures >= 1)
            assert reason in view.reason.lower().replace("_", " "), wrong
    of_another_host = made._replace(server=made.client, server_key=made.client_key)
    async with another_broker(tmp_path, *of_another_host.in_tls(listener)) as other:
        await configure(broker, {**rules, "remote_url": _tls_url(other, protocol)})
        view = await shows(broker, lambda view: view.failures >= 1)
        assert "IP address mismatch, certificate is not valid for '127.0.0.1'" in view.reason


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def _tls_url(broker: RunningBroker, protocol: str) -> str:
    [port] = [
        each.listeners[f"{protocol}_tls"].port for each in broker.node.servers if f"{protocol}_tls" in each.listeners
    ]
    return f"{protocol}s://127.0.0.1:{port}"


async def test_a_full_foreign_broker_gets_the_rest_when_it_has_room_again(
    broker: RunningBroker, tmp_path: Path, protocol: str
) -> None:
    """MQTT: 0x97, quota exceeded. AMQP: rejected with amqp:resource-limit-exceeded. None of it is for good."""
    count = 30
    await create(broker, "q", subscriptions=["out/>"])
    await fill(broker, "out/x", count, b"x" * 100_000)
    async with another_broker(tmp_path) as other:
        await create(other, "got", subscriptions=["got/>"], max_msg_spool_usage=1)
        told = {"remote_url": url_of(other, protocol), "window_messages": 4}
        await configure(broker, {**told, "outgoing": [to_queue(protocol, "got")]})
        await shows(broker, lambda view: rule(view, "outgoing").failures > 0)
        await change(other, "got", max_msg_spool_usage=100)
        await queue_shows(broker, lambda queue: not queue.ready_count and not queue.unacked_count)
        assert (await queue_shown(other, "got")).ready_count == count
        view = await shows(broker, all_up)
        assert (view.connections, rule(view, "outgoing").dropped) == (1, {})


@pytest.mark.parametrize("protocol", ["amqp", "flow"])
async def test_a_queue_there_that_is_deleted_ends_the_rule_until_it_is_back(
    broker: RunningBroker, tmp_path: Path, protocol: str
) -> None:
    """The foreign broker ends a link alone, and keeps the connection."""
    await create(broker, "back")
    async with another_broker(tmp_path) as other:
        await create(other, "theirs")
        await connect(broker, remote_url=url_of(other, protocol), incoming=[from_queue(protocol, "theirs")])
        await NodeOperations(other.node).delete_queue("theirs")
        await shows(broker, lambda view: not view.up and "theirs" in view.reason)
        await create(other, "theirs", subscriptions=["in/>"])
        await shows(broker, all_up)
        await fill(other, "in/x", 1)
        await queue_shows(broker, lambda queue: queue.ready_count == 1, "back")


@pytest.mark.parametrize("protocol", ["amqp", "flow"])
async def test_a_queue_there_that_is_missing_is_waited_for(
    broker: RunningBroker, tmp_path: Path, protocol: str
) -> None:
    """AMQP: the attach is refused. Flow: each message is. Nothing is lost, or rejected for good."""
    await create(broker, "q", subscriptions=["out/>"])
    await fill(broker, "out/x", 3)
    async with another_broker(tmp_path) as other:
        told = {"remote_url": url_of(other, protocol), "outgoing": [to_queue(protocol, "got")]}
        await configure(broker, told)
        await shows(broker, lambda view: view.failures > 0 or rule(view, "outgoing").failures > 0)
        await create(other, "got")
        await queue_shows(other, lambda queue: queue.ready_count == 3, "got")
        view = await shows(broker, lambda view: rule(view, "outgoing").messages == 3)
        assert rule(view, "outgoing").dropped == {}
