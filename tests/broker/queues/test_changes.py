"""Changes to a queue in use: access type, egress, limits and times take effect at once (Solace 4.4, 4.5)."""

import asyncio

import pytest

from sluicegate.actors.messages.data import StoreRefused
from sluicegate.actors.messages.directory import NAMED, CreateQueue, DeleteQueue, FindQueue, LocalQueue
from sluicegate.actors.queues import core as queue_core
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.gateway.config.load import load
from sluicegate.gateway.views.errors import Refused
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.queues.definition import definition_from_dict
from sluicegate.storage.errors import StoreFailed
from sluicegate.storage.interface import CommitJob
from support.broker.inside_client import InsideClient
from support.broker.named_queues import change, create, shown, shows
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import DEADLINE_S


async def test_the_access_type_changes_only_while_egress_is_off(broker: RunningBroker) -> None:
    """Solace 4.2: accessType."""
    await create(broker)
    with pytest.raises(Refused, match="access_type cannot change while egress is on"):
        await change(broker, access_type="non-exclusive")
    await change(broker, egress_enabled=False)
    await change(broker, access_type="non-exclusive")
    await change(broker, egress_enabled=True)
    first, second = await broker.connect(level=5), await broker.connect(level=5)
    for client in (first, second):
        assert await client.subscribe("$queue/q", qos=1) == [1]
    assert [flow.active for flow in (await shown(broker)).flows] == [True, True]


async def test_an_exclusive_queue_that_was_shared_has_one_active_flow(broker: RunningBroker) -> None:
    """Solace 4.4; the assignment epoch goes on rising over the change."""
    await create(broker, access_type="non-exclusive")
    await (await broker.connect(level=5)).subscribe("$queue/q", qos=1)
    epoch = (await shown(broker)).partitions[0].assignment_epoch
    await change(broker, egress_enabled=False)
    await change(broker, access_type="exclusive", egress_enabled=True)
    await broker.restart()
    view = await shown(broker)
    assert (view.config.access_type, epoch) == ("exclusive", 1)
    for _ in range(2):
        await (await broker.connect(level=5)).subscribe("$queue/q", qos=1)
    view = await shown(broker)
    assert [flow.active for flow in view.flows] == [True, False]


async def test_flows_return_when_egress_does(broker: RunningBroker) -> None:
    """Solace 4.5: egress shut down ends flows; clients come back by themselves once it is enabled."""
    await create(broker, subscriptions=["t"])
    client = await broker.connect(level=5)
    assert await client.subscribe("$queue/q", qos=1) == [1]
    await change(broker, egress_enabled=False)
    await shows(broker, lambda view: not view.flows)
    await (await broker.connect()).publish("t", b"while it was off")
    await change(broker, egress_enabled=True)
    assert (await client.message()).payload == b"while it was off"


async def test_a_flow_that_cannot_come_back_costs_its_connection(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After a mistake of ours the client comes again: else it would wait for messages that nobody sends it any more."""
    await create(broker)
    client = await broker.connect()
    await client.subscribe("$queue/q", qos=1)
    await change(broker, egress_enabled=False)
    await change(broker, egress_enabled=True)

    def fail(*_: object) -> bool:
        raise ValueError("a mistake")

    monkeypatch.setattr(queue_core, "permits", fail)
    caplog.handler.addFilter(lambda record: "ValueError('a mistake')" not in record.getMessage())
    await client.is_closed()


@pytest.mark.settings("authentication.client_profiles=[{name: default, max_egress_flow_count: 1}]")
async def test_a_flow_beyond_the_limit_does_not_return_and_does_no_harm(broker: RunningBroker) -> None:
    """Solace 2.5: the client took another one meanwhile, and its profile allows no more."""
    await create(broker)
    await create(broker, "other", subscriptions=["t"])
    client = await broker.connect(level=5)
    assert await client.subscribe("$queue/q", qos=1) == [1]
    await change(broker, egress_enabled=False)
    assert await client.subscribe("$queue/other", qos=1) == [1]
    await change(broker, egress_enabled=True)
    dropped = broker.node.mqtt.counters.dropped
    async with asyncio.timeout(DEADLINE_S):
        while not dropped.get("bind_refused"):
            await asyncio.sleep(0.01)
    await (await broker.connect()).publish("t", b"on")
    assert (await client.message()).payload == b"on"
    assert not (await shown(broker)).flows


async def test_a_flow_that_was_unsubscribed_meanwhile_does_not_return(broker: RunningBroker) -> None:
    """MQTT 3.10.4: the client does not want it any more. Another client's flow shows when everybody has tried again."""
    await create(broker, access_type="non-exclusive")
    gone, stays = await broker.connect("gone", level=5), await broker.connect("stays", level=5)
    for client in (gone, stays):
        await client.subscribe("$queue/q", qos=1)
    await change(broker, egress_enabled=False)
    assert await gone.unsubscribe("$queue/q") == [0]
    await change(broker, egress_enabled=True)
    view = await shows(broker, lambda view: bool(view.flows))
    assert [flow.client for flow in view.flows] == ["stays"]


async def test_a_session_that_resumes_too_early_gets_its_flow_later(broker: RunningBroker) -> None:
    """Solace 4.5: a bind that was refused for now is tried again."""
    await create(broker, subscriptions=["t"])
    client = await broker.connect_durable("c")
    await client.subscribe("$queue/q", qos=1)
    await client.vanish()
    await shows(broker, lambda view: not view.flows)
    await change(broker, egress_enabled=False)
    client = await broker.connect_durable("c")
    await shows(broker, lambda view: view.bind_refusals == {"endpoint_disabled": 1})
    await change(broker, egress_enabled=True)
    await (await broker.connect()).publish("t", b"late")
    assert (await client.message()).payload == b"late"


async def test_a_raised_limit_lets_waiting_messages_go(broker: RunningBroker) -> None:
    """max_delivered_unacked_msgs_per_flow: nothing has to be settled first."""
    await create(broker, subscriptions=["t"], max_delivered_unacked_msgs_per_flow=1)
    client = await broker.connect(level=5)
    await client.subscribe("$queue/q", qos=1)
    publisher = await broker.connect()
    for payload in (b"one", b"two"):
        await publisher.publish("t", payload)
    assert (await client.message()).payload == b"one"
    await client.is_quiet()
    await change(broker, max_delivered_unacked_msgs_per_flow=2)
    assert (await client.message()).payload == b"two"


async def test_rebalance_times_reach_a_queue_that_runs(broker: RunningBroker) -> None:
    """Solace 4.2: partitionRebalanceDelay. With an hour of delay the second consumer would get nothing in this test."""
    await create(broker, access_type="non-exclusive", partition_count=2, partition_rebalance_delay_s=3600)
    await change(broker, partition_rebalance_delay_s=0, partition_rebalance_max_handoff_time_s=0)
    for _ in range(2):
        await (await broker.connect(level=5)).subscribe("$queue/q", qos=1)
    view = await shows(broker, lambda view: all(flow.active for flow in view.flows) and len(view.flows) == 2)
    assert sorted(len(flow.partitions) for flow in view.flows) == [1, 1]


async def test_a_reload_moves_the_marks_of_queues_that_exist(broker: RunningBroker) -> None:
    """docs/operate/configuration.md: backpressure is taken over on SIGHUP."""
    client = await broker.connect("c")
    await client.subscribe("t", qos=1)
    target = broker.node.default.space.route("t").guaranteed[0].queue
    assert target is not None
    before = target.pressure.high_bytes
    config = load(settings=(*broker.settings, "backpressure.connection_buffer_bytes_max=64KiB"))
    await broker.node.reload(config)
    async with asyncio.timeout(DEADLINE_S):
        while target.pressure.high_bytes == before:
            await asyncio.sleep(0.01)
    assert target.pressure.high_bytes == 65_536


async def test_a_larger_quota_releases_all_publishers(broker: RunningBroker) -> None:
    """A durable queue never slows its publishers, whatever its quota was when it was made."""
    await create(broker, subscriptions=["t"], max_msg_spool_usage=1)
    await change(broker, max_msg_spool_usage=5)
    publisher = await broker.connect(level=5)
    for _ in range(4):
        assert await publisher.publish("t", bytes(600_000)) == 0


async def test_a_message_in_the_inbox_of_a_queue_being_deleted_reaches_the_other_queue(
    broker: RunningBroker,
) -> None:
    """Else its publisher would never be answered, and no queue would have it after a restart."""
    deleted, other = InsideClient(broker, "q"), InsideClient(broker, "other")
    await deleted.create()
    await other.create(subscriptions=["q/>"])
    is_deleted = broker.node.vpns[DEFAULT_VPN].queues.ask(DeleteQueue("q"))
    await deleted.publish(b"m")  # in the partition's inbox when its turn to stop comes
    await is_deleted
    await broker.restart()
    assert (await other.consume_all()).payloads() == [b"m"]


def being_made(broker: RunningBroker, name: str) -> LoopFuture[LocalQueue]:
    """Ask for a queue that collects the topic `t`, if there is none of the name."""
    definition = definition_from_dict({"name": name, "subscriptions": ["t"]})
    return broker.node.default.queues.ask(CreateQueue(definition, NAMED, durable=True, must_be_new=False))


async def test_a_queue_that_is_deleted_while_it_is_made_collects_nothing(broker: RunningBroker) -> None:
    """Its topics would lead to it for good: publishers would be confirmed, or refused, by what nobody can find."""
    making = being_made(broker, "q")
    assert await broker.node.default.queues.ask(DeleteQueue("q"))

    with pytest.raises(StoreRefused, match="queue 'q' was deleted while it was being made"):
        await making
    assert broker.node.default.space.route("t").is_empty


async def test_requests_for_a_queue_being_created_are_answered_once_it_is_stored(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who was answered before would consume from a queue, or publish to it, that there is not in the end."""

    def refuse(_: CommitJob) -> int:
        raise StoreFailed("refused")

    monkeypatch.setattr(broker.node.services.store, "commit", refuse)
    first, second = being_made(broker, "q"), being_made(broker, "q")

    for each in (first, second):
        with pytest.raises(StoreRefused, match="refused"):
            await each
    monkeypatch.undo()
    assert await broker.node.default.queues.ask(FindQueue("q")) is None


async def test_a_queue_that_could_not_be_stored_takes_no_other_of_its_name_along(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = broker.node.services.store.commit
    refused: list[CommitJob] = []

    def refuse_once(job: CommitJob) -> int:
        if not refused:
            refused.append(job)
            raise StoreFailed("refused")
        return commit(job)

    monkeypatch.setattr(broker.node.services.store, "commit", refuse_once)
    first = being_made(broker, "q")
    is_deleted = broker.node.default.queues.ask(DeleteQueue("q"))
    second = being_made(broker, "q")

    with pytest.raises(StoreRefused, match="deleted while it was being made"):
        await first
    with pytest.raises(StoreRefused, match="refused"):
        await second
    assert await is_deleted
    assert await broker.node.default.queues.ask(FindQueue("q")) is None
