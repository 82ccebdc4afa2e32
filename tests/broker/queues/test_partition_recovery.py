"""A partition that fails again and again is read back from the spool, and its queue goes on.

The failure is a message that no partition knows: every one of them costs the actor an instance, as a mistake in a
handler would.
"""

import asyncio
from typing import NoReturn

import pytest

import support.mqtt.packets as mqtt
from sluicegate.actors.messages.directory import FindQueue, LocalQueue
from sluicegate.actors.messages.queues import DescribeQueue
from sluicegate.actors.messages.spool import ReadPage
from sluicegate.actors.partitions.actor import PartitionActor
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.partitions.recovery import StoredPartition
from support.broker.message_usage import usage_of
from support.broker.named_queues import create, shown, shows
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import DEADLINE_S

FAILURES_UNTIL_RELOAD = 6  # five restarts within a minute are a hiccup


async def partition_of(broker: RunningBroker, number: int = 0, name: str = "q") -> ActorCell:
    handle: LocalQueue = await broker.node.default.queues.ask(FindQueue(name))
    assert handle.cell.children is not None
    return list(handle.cell.children)[number]


async def fail(partition: ActorCell, times: int = FAILURES_UNTIL_RELOAD) -> None:
    """Make the partition fail, and wait until it works again."""
    before = partition.overview().restarts_count
    for _ in range(times):
        partition.inbox.post(object())
    async with asyncio.timeout(2 * DEADLINE_S):
        while partition.overview().restarts_count < before + times or partition.suspended:
            await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def expect_the_failures(caplog: pytest.LogCaptureFixture) -> None:
    """These tests cause failures, which are logged as errors; nothing else may be."""
    caplog.handler.addFilter(lambda record: "actor sluicegate/default/queues/" not in record.getMessage())


async def test_waiting_messages_survive_a_partition_failure_in_order(broker: RunningBroker) -> None:
    """A crash of a partition costs a reload from the spool."""
    await create(broker, subscriptions=["t"])
    publisher = await broker.connect()
    payloads = [b"%03d" % number for number in range(50)]
    for payload in payloads:
        await publisher.publish("t", payload)
    await fail(await partition_of(broker))
    view = await shown(broker)
    assert (view.ready_count, view.unacked_count, view.spooled_bytes) == (50, 0, usage_of("t", *payloads))
    await publisher.publish("t", b"new")
    consumer = await broker.connect(level=5)
    await consumer.subscribe("$queue/q", qos=1)
    assert await consumer.payloads(51) == [*payloads, b"new"]
    await shows(broker, lambda view: view.ready_count == view.unacked_count == view.spooled_bytes == 0)


async def test_unsettled_messages_are_redelivered_after_a_partition_failure(broker: RunningBroker) -> None:
    """A late settlement under the epoch of before changes nothing; the message is redelivered under the next."""
    await create(broker, subscriptions=["t"])
    consumer = await broker.connect(level=5)
    await consumer.subscribe("$queue/q", qos=1)
    await (await broker.connect()).publish("t", b"held")
    held = await consumer.message()
    epoch = (await shown(broker)).partitions[0].assignment_epoch
    await fail(await partition_of(broker))
    again = await consumer.message()
    assert again.payload == held.payload
    assert (await shown(broker)).partitions[0].assignment_epoch == epoch + 1
    consumer.acknowledge(held)
    await consumer.round_trip()
    assert (await shown(broker)).unacked_count == 1
    consumer.acknowledge(again)
    await shows(broker, lambda view: view.unacked_count == 0)


async def test_deliveries_before_a_partition_failure_do_not_count_against_the_flow(broker: RunningBroker) -> None:
    """max_delivered_unacked_msgs_per_flow: of the failed ledger nothing is held any more."""
    await create(broker, subscriptions=["t"], max_delivered_unacked_msgs_per_flow=2)
    consumer = await broker.connect(level=5)
    await consumer.subscribe("$queue/q", qos=1)
    publisher = await broker.connect()
    await publisher.publish("t", b"1")
    assert (await consumer.message()).payload == b"1"
    await fail(await partition_of(broker))
    await publisher.publish("t", b"2")
    assert [(await consumer.message()).payload for _ in range(2)] == [b"1", b"2"]


async def test_settled_messages_stay_settled_after_a_partition_failure(broker: RunningBroker) -> None:
    """Also when the store has not heard of it before the failure."""
    await create(broker, subscriptions=["t"])
    publisher = await broker.connect()
    for number in range(10):
        await publisher.publish("t", b"%d" % number)
    consumer = await broker.connect_durable("c")
    await consumer.subscribe("$queue/q", qos=1)
    await consumer.messages(10)
    await fail(await partition_of(broker))
    await publisher.publish("t", b"after")
    assert (await consumer.message()).payload == b"after"
    await broker.restart()
    assert (await shown(broker)).ready_count == 1


async def test_a_spool_that_is_never_idle_reads_a_partition_back_all_the_same(broker: RunningBroker) -> None:
    """The others' commits go on; what went to two queues at once is in both afterwards."""
    await create(broker, "q", subscriptions=["both"])
    await create(broker, "other", subscriptions=["both", "other"])
    partition = await partition_of(broker)
    publisher = await broker.connect(level=5)
    busy = await broker.connect(level=5)
    done = False

    async def keep_the_spool_busy() -> None:
        while not done:
            ids = [busy.next_packet_id() for _ in range(20)]
            busy.send(*[mqtt.publish("other", b"x", level=5, qos=1, packet_id=each) for each in ids])
            for packet_id in ids:
                await busy.answered(mqtt.PUBACK, packet_id)

    load = asyncio.create_task(keep_the_spool_busy())
    for number in range(3):
        failing = asyncio.create_task(fail(partition))
        for step in range(20):
            assert await publisher.publish("both", b"%d" % (20 * number + step)) == 0
        await failing
    done = True
    await load
    consumer = await broker.connect(level=5)
    await consumer.subscribe("$queue/q", qos=1)
    assert [int(payload) for payload in await consumer.payloads(60)] == list(range(60))
    await shows(broker, lambda view: view.spooled_bytes == 0)


async def test_publishers_do_not_notice(broker: RunningBroker) -> None:
    """What is posted to a partition while it is read back waits, and is confirmed."""
    await create(broker, subscriptions=["t"])
    publisher = await broker.connect(level=5)
    partition = await partition_of(broker)
    failing = asyncio.create_task(fail(partition))
    for number in range(100):
        assert await publisher.publish("t", b"%d" % number) == 0
    await failing
    view = await shown(broker)
    assert (view.ready_count, view.partitions[0].next_sequence) == (100, 101)


async def test_a_message_for_two_queues_is_in_both_afterwards(broker: RunningBroker) -> None:
    """Its journal record stays as long as either needs it, and goes when both have settled."""
    await create(broker, "q", subscriptions=["t"])
    await create(broker, "other", subscriptions=["t"])
    await (await broker.connect()).publish("t", b"both")
    await fail(await partition_of(broker))
    for name in ("q", "other"):
        consumer = await broker.connect(level=5)
        await consumer.subscribe(f"$queue/{name}", qos=1)
        assert await consumer.payloads(1) == [b"both"]
        await shows(broker, lambda view: view.unacked_count == 0, name)
    await broker.restart()
    assert [(await shown(broker, name)).ready_count for name in ("q", "other")] == [0, 0]


async def test_only_the_partition_that_failed_is_given_out_anew(broker: RunningBroker) -> None:
    """Partitioned queues: the others keep their epoch and their messages in flight."""
    await create(broker, access_type="non-exclusive", partition_count=3)
    consumer = await broker.connect(level=5)
    await consumer.subscribe("$queue/q", qos=1)
    await fail(await partition_of(broker, 1))
    view = await shows(broker, lambda view: view.partitions[1].assignment_epoch == 2)
    assert [each.assignment_epoch for each in view.partitions] == [1, 2, 1]
    assert [each.client for each in view.partitions] == [view.flows[0].client] * 3


@pytest.mark.settings("spool.memory_bytes_max=1MiB")
async def test_a_backlog_in_pages_survives(broker: RunningBroker) -> None:
    """Pages, the journal, and pages that were on their way to the store when the partition failed."""
    await create(broker, subscriptions=["t"])
    publisher = await broker.connect()
    for number in range(300):
        await publisher.publish("t", b"%04d" % number + bytes(8000))
    partition = await partition_of(broker)
    ids = [publisher.next_packet_id() for _ in range(100)]
    for number, packet_id in enumerate(ids, 300):
        publisher.send(mqtt.publish("t", b"%04d" % number + bytes(8000), qos=1, packet_id=packet_id))
    await fail(partition)
    for packet_id in ids:
        assert await publisher.answered(mqtt.PUBACK, packet_id) == 0
    consumer = await broker.connect(level=5)
    await consumer.subscribe("$queue/q", qos=1)
    payloads = await consumer.payloads(400)
    assert [int(payload[:4]) for payload in payloads] == list(range(400))
    await shows(broker, lambda view: view.ready_count == view.unacked_count == view.spooled_bytes == 0)


@pytest.mark.settings("spool.memory_bytes_max=1MiB")
async def test_a_partition_that_cannot_even_say_what_it_needs_is_made_anew(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What fails is what every turn ends with, and so the last words of the ledger as well."""
    await create(broker, subscriptions=["t"])
    publisher = await broker.connect()
    for number in range(300):
        await publisher.publish("t", b"%04d" % number + bytes(8000))
    read, failures = broker.node.services.threads.read, list[ReadPage]()

    def fails(request: ReadPage) -> None:
        if len(failures) <= FAILURES_UNTIL_RELOAD:
            failures.append(request)
            raise ValueError("a mistake")
        read(request)

    monkeypatch.setattr(broker.node.services.threads, "read", fails)
    caplog.handler.addFilter(lambda record: "a mistake" not in record.getMessage())
    consumer = await broker.connect(level=5)
    await consumer.subscribe("$queue/q", qos=1)
    assert [int(payload[:4]) for payload in await consumer.payloads(300)] == list(range(300))
    assert len(failures) > FAILURES_UNTIL_RELOAD


async def test_a_ledger_that_cannot_be_made_is_tried_again(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await create(broker, subscriptions=["t"])
    await (await broker.connect()).publish("t", b"kept")
    tries: list[str] = []

    def fails_once(_: PartitionActor, stored: StoredPartition) -> NoReturn:
        tries.append(repr(stored))
        monkeypatch.undo()
        raise ValueError("a mistake")

    monkeypatch.setattr(PartitionActor, "reload", fails_once)
    caplog.handler.addFilter(lambda record: "could not be reloaded" not in record.getMessage())
    await fail(await partition_of(broker))
    consumer = await broker.connect(level=5)
    await consumer.subscribe("$queue/q", qos=1)
    assert await consumer.payloads(1) == [b"kept"]
    assert len(tries) == 1


async def holds_nothing(broker: RunningBroker, name: str) -> None:
    """Wait until a queue of the broker's own, which the admin port does not show, has nothing left."""
    handle: LocalQueue = await broker.node.default.queues.ask(FindQueue(name))
    async with asyncio.timeout(2 * DEADLINE_S):
        while (await handle.cell.ask(DescribeQueue())).partitions[0].waiting_count:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(("filter_text", "name"), [("t", "#mqtt/c"), ("$share/g/t", "#share/g/t")])
async def test_a_qos_2_message_that_a_session_holds_stays_under_its_packet_id(
    broker: RunningBroker, filter_text: str, name: str
) -> None:
    """[4.3.3-1]: exactly once; it is neither sent again, which only a reconnect allows [4.4.0-1], nor lost."""
    client = await broker.connect_durable("c")
    await client.subscribe(filter_text, qos=2)
    publisher = await broker.connect()
    for payload in (b"1", b"2"):
        await publisher.publish("t", payload, qos=2)
    first, second = [await client.message() for _ in range(2)]

    await fail(await partition_of(broker, name=name))

    await client.is_quiet()
    for message in (second, first):
        await client.completes(message)
    await publisher.publish("t", b"3", qos=2)
    third = await client.message()
    assert third.payload == b"3"
    await client.completes(third)
    await holds_nothing(broker, name)


@pytest.mark.parametrize("reconnects", [False, True])
async def test_a_qos_2_message_that_a_session_has_taken_does_not_come_to_it_again(
    broker: RunningBroker, reconnects: bool
) -> None:
    """[4.3.3-1]: the ledger is told again, as soon as it delivers a message whose settlement has not reached it."""
    client = await broker.connect_durable("c", properties=mqtt.receive_maximum(1))
    await client.subscribe("t", qos=2)
    publisher = await broker.connect()
    for payload in (b"1", b"2"):
        await publisher.publish("t", payload, qos=2)
    message = await client.message()
    await fail(await partition_of(broker, name="#mqtt/c"))  # and the window is full: nothing is delivered again

    client.send(mqtt.pubrec(message.packet_id))
    assert await client.answered(mqtt.PUBREL, message.packet_id) == 0
    if reconnects:
        await client.vanish()
        client = await broker.connect_durable("c", properties=mqtt.receive_maximum(1))
        assert await client.answered(mqtt.PUBREL, message.packet_id) == 0
    client.send(mqtt.pubcomp(message.packet_id))

    following = await client.message()
    assert following.payload == b"2"
    await client.completes(following)
    await holds_nothing(broker, "#mqtt/c")
