"""A reload that cannot apply a change: one log line, no harm to other settings, and the next reload tries again."""

import asyncio
import logging
import threading
from typing import Final, NoReturn

import pytest

from sluicegate.actors.messages.directory import ListQueues, LocalQueue
from sluicegate.actors.spool.catalog import WriteRow
from sluicegate.gateway.config.load import load
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.reload import Changes
from sluicegate.gateway.node import vpn
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.process.run import Reloading
from sluicegate.gateway.views.errors import QueueNotFound
from sluicegate.storage.catalog.recovered import StoredVpn
from sluicegate.storage.errors import StoreFull
from sluicegate.storage.interface import CommitJob, Table, TableWrite
from support.broker.inside_client import until
from support.broker.protocol_clients import OK, Answer, Http, Mqtt, ProtocolClient
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import DEADLINE_S

ANYBODY: Final = "vpns.new.authentication.allow_anonymous=true"
DECLARED: Final = "vpns.new.queues={templates: [{name: small, queue_name_filter: s/*}], declared: [{name: fresh}]}"
VPN_DOWN: Final = {"mqtt": 0x88, "http": 503}


async def comes_in(client: ProtocolClient, user: str) -> Answer:
    """Return what a client hears when it connects; it is gone again then."""
    try:
        return await client.connect(user, "")
    finally:
        await client.leave()


def told(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    """Return the lines of the node's log of this level, and forget them."""
    lines = [each.getMessage() for each in caplog.records if each.levelno == level]
    caplog.clear()
    return lines


async def test_a_declaration_that_a_full_store_refuses_is_reported_and_the_rest_goes_on(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """docs/operate/recovery.md, a full disk: a template ends neither a start nor a reload, and neither does a queue."""
    config = load(settings=(*broker.settings, ANYBODY, DECLARED, "listeners.mqtt.max_connections=7"))
    carry_out = broker.node.services.store.commit
    full = True

    def commit(job: CommitJob) -> int:
        if full:
            raise StoreFull("map", "no room in this test")
        return carry_out(job)

    monkeypatch.setattr(broker.node.services.store, "commit", commit)
    broker.node.configuration = lambda: config
    warned = (await NodeOperations(broker.node).reload()).warnings
    assert [line for line in told(caplog, logging.WARNING) if "declared" in line] == list(warned)
    assert [line.partition(" as declared: ")[0] for line in warned] == [
        "queue template 'small' was not created",
        "queue 'fresh' was not created",
    ]
    assert broker.node.mqtt.listeners["mqtt"].connections_max == 7
    new = NodeOperations(broker.node, "new")
    with pytest.raises(QueueNotFound):
        await new.show_queue("fresh")
    full = False
    while broker.node.services.spool_gate.blocked or not await new.list_templates():
        await broker.node.services.runtime.sleep(20)
        await broker.node.reload(config)
    assert (await new.show_queue("fresh")).ready_count == 0
    assert await comes_in(Mqtt(broker), "x@new") == OK


async def test_a_message_vpn_accepts_no_client_before_it_has_started(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """docs/concepts/message-vpns.md: the others take over what is theirs, and the next reload starts it."""
    config = load(settings=(*broker.settings, ANYBODY, "listeners.http.vpn=new", "listeners.mqtt.max_connections=7"))

    def fails(*_: object, **__: object) -> NoReturn:
        raise OSError("for this test")

    broker.node.configuration = lambda: config
    with monkeypatch.context() as patch:
        patch.setattr(vpn, "define_virtual_destinations", fails)
        warned = (await NodeOperations(broker.node).reload()).warnings
    assert told(caplog, logging.ERROR) == list(warned)
    assert [line for line in warned if "'new'" in line] == [
        "message VPN 'new' could not apply its configuration: OSError('for this test'); "
        "a reload tries again, and until then nobody is let in"
    ]
    assert broker.node.mqtt.listeners["mqtt"].connections_max == 7
    assert await comes_in(Mqtt(broker), "x@new") == VPN_DOWN["mqtt"]
    assert await comes_in(Http(broker), "") == VPN_DOWN["http"]
    assert (await NodeOperations(broker.node).reload()).warnings == ()
    assert await comes_in(Mqtt(broker), "x@new") == OK


async def test_a_reload_that_is_asked_for_during_a_start_comes_after_it(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGHUP may come at any time: what the store has comes back once, and to those who were there before."""
    await broker.stop()
    config = load(settings=(*broker.settings, "listeners.mqtt.max_connections=7"))
    bring_back, started = vpn.MessageVpn.start, list[str]()
    reloads: list[asyncio.Task[Changes]] = []

    async def start(self: vpn.MessageVpn, stored: StoredVpn) -> None:
        started.append(self.name)
        if not reloads:
            reloads.append(asyncio.create_task(broker.node.reload(config)))
            await asyncio.sleep(0)  # it has begun
        await bring_back(self, stored)

    monkeypatch.setattr(vpn.MessageVpn, "start", start)
    await broker.start()
    await reloads[0]
    assert started == ["default"]
    assert broker.node.mqtt.listeners["mqtt"].connections_max == 7


async def test_a_reload_completes_though_its_client_has_left(broker: RunningBroker) -> None:
    """The admin port gives an answer up after some seconds, and what declares thousands of queues takes longer."""
    wanted = "queues.declared=[{name: first}, {name: second}]"
    config = load(settings=(*broker.settings, wanted, "listeners.mqtt.max_connections=7"))
    broker.node.configuration = lambda: config
    asked = asyncio.create_task(NodeOperations(broker.node).reload())
    while not broker.node.services.config.queues.declared:
        await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked

    async with asyncio.timeout(DEADLINE_S):
        while broker.node.mqtt.listeners["mqtt"].connections_max != 7:
            await asyncio.sleep(0.01)
    assert {"first", "second"} <= set(await NodeOperations(broker.node).queue_names())


@pytest.mark.parametrize("by_signal", [False, True])
async def test_clients_are_served_while_a_configuration_is_read(broker: RunningBroker, by_signal: bool) -> None:
    """docs/operate/configuration.md: reading thousands of queues takes seconds, and clients notice nothing."""
    config = load(settings=(*broker.settings, "listeners.mqtt.max_connections=7"))
    is_read, is_served = threading.Event(), threading.Event()

    def read() -> Config:
        is_read.set()
        assert is_served.wait(DEADLINE_S), "the loop has waited for the file"
        return config

    broker.node.configuration = read
    reloading = Reloading(broker.node, read)
    if by_signal:
        reloading.request()
    else:
        broker.node.services.runtime.keep(asyncio.create_task(NodeOperations(broker.node).reload()))
    await until(is_read.is_set, "the configuration to be read")
    assert await comes_in(Mqtt(broker), "") == OK
    is_served.set()
    await broker.node.reload(config)  # behind the other
    reloading.stop()
    assert broker.node.mqtt.listeners["mqtt"].connections_max == 7


async def test_changed_limits_reach_all_queues(broker: RunningBroker) -> None:
    """docs/operate/settings.md, `backpressure`: they do so some at a time, and a later change overtakes an earlier."""
    for number in range(100):
        await NodeOperations(broker.node).create_queue({"name": f"q{number}"}, durable=False)
    handles: list[LocalQueue] = await broker.node.default.queues.ask(ListQueues())
    for high_bytes in (100 << 10, 200 << 10):
        config = load(settings=(*broker.settings, f"backpressure.connection_buffer_bytes_max={high_bytes}"))
        await broker.node.reload(config)
    await until(
        lambda: {each.target.pressure.high_bytes for each in handles if not each.durable} == {200 << 10},
        "every queue to have the limits",
    )


async def test_nothing_is_open_before_everything_is_restored(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would hold clients up for long is done before they can connect."""
    await broker.stop()
    start, seen = Node.start, list[tuple[list[tuple[str, str]], bool]]()

    async def start_and_look(self: Node) -> None:
        await start(self, before_opening=lambda: seen.append((self.endpoints(), self.default.is_started)))

    monkeypatch.setattr(Node, "start", start_and_look)
    await broker.start()
    assert seen == [([], True)]


async def test_signals_that_come_during_a_reload_are_one_more_together(broker: RunningBroker) -> None:
    """docs/operate/operations.md: SIGHUP. And a node that stops hears of none."""
    config = load(settings=(*broker.settings, "listeners.mqtt.max_connections=7"))
    reads_count = 0

    def read() -> Config:
        nonlocal reads_count
        reads_count += 1
        if reads_count == 1:
            for _ in range(10):
                reloading.request()
        return config

    reloading = Reloading(broker.node, read)
    for _ in range(10):
        reloading.request()
    async with asyncio.timeout(DEADLINE_S):
        while reads_count < 2:
            await asyncio.sleep(0)
    await broker.node.reload(config)  # behind all that were asked for
    assert (reads_count, broker.node.mqtt.listeners["mqtt"].connections_max) == (2, 7)
    reloading.stop()
    reloading.request()
    await broker.node.reload(config)
    assert reads_count == 2


async def test_a_setting_that_needs_a_restart_is_reported_until_it_is_reverted(broker: RunningBroker) -> None:
    """docs/operate/configuration.md: it waits for a restart, however often the configuration is read before."""
    slow = load(settings=(*broker.settings, "spool.commit_interval_ms=7", "vpns.new.queues.temporary_grace_s=9"))
    for _ in range(2):
        changes = await broker.node.reload(slow)
        assert [str(each) for each in changes.restart_needed] == ["spool.commit_interval_ms: 2 -> 7"]
    changes = await broker.node.reload(broker.config)
    assert not changes.restart_needed


@pytest.mark.settings("listeners.mqtt.host=0.0.0.0", "vpns.old.enabled=true")
async def test_anonymous_clients_stay_refused_while_a_loopback_address_waits_for_a_restart(
    broker: RunningBroker,
) -> None:
    """docs/operate/settings.md, `allow_anonymous`: on listeners that only this machine reaches; one is open."""
    config = load(settings=(*broker.settings, "listeners.mqtt.host=127.0.0.1", "vpns.new.enabled=true"))
    await broker.node.reload(config)
    refused = await comes_in(Mqtt(broker), "x@old")
    assert refused != OK
    assert await comes_in(Mqtt(broker), "x@new") == refused


@pytest.mark.parametrize("name", [b"\xff", b"ada"])
async def test_an_unreadable_row_of_the_store_is_skipped_and_reported(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture, name: bytes
) -> None:
    """A later release may have written it: everything else is there, and the row stays."""
    await NodeOperations(broker.node).create_user({"name": "bob", "password": "builder"})
    await broker.node.default.catalog.ask(WriteRow(TableWrite(Table.CATALOG, b"user/" + name, b"{}")))
    await broker.restart()
    (line,) = told(caplog, logging.ERROR)
    assert line.startswith(
        f"user {name.decode(errors='backslashreplace')!r} in the store cannot be read and is ignored: "
    )
    assert list(broker.node.default.users.provisioned.objects) == ["bob"]


async def test_a_declaration_that_an_existing_queue_contradicts_is_reported(broker: RunningBroker) -> None:
    """docs/operate/configuration.md, declared queues: it stays as it is, and the operator is told."""
    first = "queues.declared=[{name: orders, max_redelivery_count: 3, subscriptions: [b, a]}]"
    later = "queues.declared=[{name: orders, egress_enabled: false, subscriptions: [a, c]}]"
    for declared, warnings in (
        (first, ()),
        (
            later,
            (
                "queue 'orders' stays as it is: egress_enabled is true, declared false; max_redelivery_count is 3, "
                "declared 0; "
                "subscriptions is ['a', 'b'], declared ['a', 'c']",
            ),
        ),
        (first.replace("[b, a]", "[a, b]"), ()),
    ):
        config = load(settings=(*broker.settings, declared))
        broker.node.configuration = lambda config=config: config
        assert (await NodeOperations(broker.node).reload()).warnings == warnings
