"""Operators delete, move, copy and re-drive single messages (Solace 4.15; dead messages go back where they died)."""

import asyncio

import pytest

import support.mqtt.packets as mqtt
from sluicegate.actors.messages.operations import COPY, DELETE, MOVE
from sluicegate.actors.messages.spool import ReadPage
from sluicegate.actors.partitions.jobs.job import PartitionJob
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import QueueNotFound, Refused
from sluicegate.gateway.views.queues.messages import RedriveView, TakenView
from sluicegate.gateway.views.queues.selections import FIELDS_OF_MOVE, FIELDS_OF_REDRIVE, selection_from_dict
from sluicegate.messaging.queues.definition import QueueInvalid
from support.broker.message_usage import usage_of
from support.broker.named_queues import change, create, shown, shows
from support.broker.running_broker import RunningBroker
from support.mqtt.raw_client import DEADLINE_S, RawClient

DMQ = "#DEAD_MSG_QUEUE"
KEY = "JMSXGroupID"
BACKLOG_COUNT = 4000


async def take(broker: RunningBroker, action: str, name: str = "q", **selection: object) -> TakenView:
    return await NodeOperations(broker.node).take_messages(name, action, selection_from_dict(selection, FIELDS_OF_MOVE))


async def redriven(broker: RunningBroker, name: str = DMQ, **selection: object) -> RedriveView:
    """Re-drive, and return what it came to at its end."""
    node = NodeOperations(broker.node)
    view = await node.start_redrive(name, selection_from_dict(selection, FIELDS_OF_REDRIVE))
    async with asyncio.timeout(3 * DEADLINE_S):
        while view.state == "running":
            await asyncio.sleep(0.01)
            view = await node.show_redrive(name)
    return view


async def payloads(broker: RunningBroker, name: str) -> list[str]:
    return [message.payload for message in await NodeOperations(broker.node).browse_queue(name, limit=1000)]


async def published(broker: RunningBroker, *texts: str, topic: str = "t", properties: bytes = b"") -> None:
    client = await broker.connect(level=5)
    for text in texts:
        assert await client.publish(topic, text.encode(), properties=properties) == 0
    await client.vanish()


async def consumer(broker: RunningBroker, name: str = "q") -> RawClient:
    client = await broker.connect(level=5)
    assert await client.subscribe(f"$queue/{name}", qos=1) == [1]
    return client


async def died(broker: RunningBroker, *texts: str, name: str = "q", topic: str = "t", properties: bytes = b"") -> None:
    """Publish messages, and reject each."""
    before = (await shown(broker, DMQ)).ready_count
    worker = await consumer(broker, name)
    for number, text in enumerate(texts, before + 1):
        await published(broker, text, topic=topic, properties=properties)
        worker.send(mqtt.puback((await worker.message()).packet_id, 0x83))
        await shows(broker, lambda view, number=number: view.ready_count == number, DMQ)  # type: ignore[misc]
    await worker.vanish()
    await shows(broker, lambda view: not view.flows and view.ready_count == 0, name)


async def backlog(broker: RunningBroker) -> None:
    """Have so many messages in `q` that most of them lie in pages, and a queue `other`."""
    await create(broker, subscriptions=["t"])
    await create(broker, "other")
    client = await broker.connect(level=5)
    for start in range(0, BACKLOG_COUNT, 100):
        numbers = range(start, start + 100)
        client.send(
            *[mqtt.publish("t", b"%0700d" % number, level=5, qos=1, packet_id=number + 1) for number in numbers]
        )
        for _ in numbers:
            await client.awaited(mqtt.PUBACK)


async def has_the_backlog(broker: RunningBroker, name: str) -> None:
    """Consume all of it, in its order."""
    found = await (await consumer(broker, name)).payloads(BACKLOG_COUNT)
    assert [int(payload) for payload in found] == list(range(BACKLOG_COUNT))


async def ready_counts(broker: RunningBroker) -> dict[str, int]:
    return {name: (await shown(broker, name)).ready_count for name in ("q", "other")}


async def test_messages_are_deleted_by_id_and_what_is_not_there_is_said(broker: RunningBroker) -> None:
    await create(broker, subscriptions=["t"])
    await published(broker, "one", "two", "three")

    taken = await take(broker, DELETE, ids=["0:2", "0:9", "4:1"])

    assert (taken.done_count, taken.kept, set(taken.not_found)) == (1, {}, {"0:9", "4:1"})
    assert await payloads(broker, "q") == ["one", "three"]
    assert (await shown(broker)).discards == {"deleted_discarded": 1}
    await broker.restart()
    assert await payloads(broker, "q") == ["one", "three"]


async def test_a_moved_message_is_gone_here_and_there_over_a_restart(broker: RunningBroker) -> None:
    """Solace has no built-in move: its tools copy, then delete. Here it is one step."""
    await create(broker, subscriptions=["t"])
    await create(broker, "other")
    await published(broker, "one", "two", "three")

    taken = await take(broker, MOVE, to="other", ids=["0:1", "0:3"])

    assert (taken.done_count, taken.kept) == (2, {})
    await broker.restart()
    assert await payloads(broker, "q") == ["two"]
    assert await payloads(broker, "other") == ["one", "three"]
    assert (await shown(broker, "q")).spooled_bytes == usage_of("t", b"two")
    assert (await shown(broker, "other")).spooled_bytes == usage_of("t", b"one", b"three")


async def test_a_copy_is_a_message_of_its_own(broker: RunningBroker) -> None:
    """Solace 4.15: the original stays; quotas of the other queue are asked again."""
    await create(broker, subscriptions=["t"])
    await create(broker, "other", max_msg_size=4)
    await published(broker, "one", "two", "three")

    taken = await take(broker, COPY, to="other")

    assert (taken.done_count, taken.kept) == (2, {"max_msg_size_exceeded": 1})
    assert await payloads(broker, "other") == ["one", "two"]
    assert await payloads(broker, "q") == ["one", "two", "three"]
    (await take(broker, DELETE, ids=["0:1"]), await take(broker, DELETE, "other", ids=["0:2"]))
    await broker.restart()
    assert await payloads(broker, "other") == ["one"]


async def test_messages_that_the_target_queue_refuses_stay_in_their_place(broker: RunningBroker) -> None:
    await create(broker, subscriptions=["t"])
    await create(broker, "other", max_msg_size=3)
    await published(broker, "one", "three", "two")

    taken = await take(broker, MOVE, to="other")
    assert (taken.done_count, taken.kept) == (2, {"max_msg_size_exceeded": 1})
    await change(broker, "other", ingress_enabled=False)
    taken = await take(broker, MOVE, to="other")
    assert (taken.done_count, taken.kept) == (0, {"max_msg_size_exceeded": 1})

    message = await (await consumer(broker)).message()
    assert (message.payload, message.dup) == (b"three", False)


async def test_unsettled_messages_are_neither_moved_nor_deleted(broker: RunningBroker) -> None:
    await create(broker, subscriptions=["t"])
    await create(broker, "other")
    await published(broker, "one")
    worker = await consumer(broker)
    held = await worker.message()

    assert (await take(broker, MOVE, to="other")).kept == {"in_flight": 1}
    assert (await take(broker, DELETE)).kept == {"in_flight": 1}
    assert (await take(broker, COPY, to="other")).done_count == 1
    worker.acknowledge(held)
    await shows(broker, lambda view: view.unacked_count == 0)


async def test_messages_move_by_their_key_between_partitioned_queues(broker: RunningBroker) -> None:
    """A key has one order there as it had here."""
    await create(broker, access_type="non-exclusive", partition_count=3, subscriptions=["t"])
    await create(broker, "other", access_type="non-exclusive", partition_count=5)
    await create(broker, "like", access_type="non-exclusive", partition_count=5, subscriptions=["t"])
    for number in range(20):
        await published(broker, str(number), properties=mqtt.user_property(KEY, f"k{number % 7}"))

    assert (await take(broker, MOVE, to="other")).done_count == 20

    node = NodeOperations(broker.node)
    places = {message.payload: message.partition for message in await node.browse_queue("other")}
    assert places == {message.payload: message.partition for message in await node.browse_queue("like")}
    for key in range(7):
        its = [message.payload for message in await node.browse_queue("other") if message.key == f"k{key}"]
        assert its == sorted(its, key=int)
    assert await payloads(broker, "q") == []


async def test_a_filter_selects_by_topic_age_and_number(broker: RunningBroker) -> None:
    await create(broker, subscriptions=["a/>"])
    await create(broker, "other")
    await published(broker, "old", topic="a/1")
    broker.clock.forward(60)
    await published(broker, "x", "y", topic="a/1")
    await published(broker, "z", topic="a/2")

    assert (await take(broker, MOVE, to="other", topic="a/2")).done_count == 1
    assert (await take(broker, MOVE, to="other", older_than_s=30)).done_count == 1
    assert (await take(broker, MOVE, to="other", topic="a/+", limit=1)).done_count == 1
    assert await payloads(broker, "other") == ["z", "old", "x"]
    assert await payloads(broker, "q") == ["y"]


@pytest.mark.settings("spool.memory_bytes_max=1MiB")
async def test_a_backlog_on_disk_moves_as_a_whole(broker: RunningBroker) -> None:
    """Messages that lie in pages, in more parts than one."""
    await backlog(broker)

    assert (await take(broker, MOVE, to="other", limit=BACKLOG_COUNT)).done_count == BACKLOG_COUNT

    await broker.restart()
    assert await payloads(broker, "q") == []
    await has_the_backlog(broker, "other")


@pytest.mark.settings("spool.memory_bytes_max=1MiB")
@pytest.mark.parametrize("action", [MOVE, COPY])
async def test_a_move_that_breaks_off_over_a_mistake_says_so_and_leaves_the_rest_in_its_place(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, action: str
) -> None:
    """What is neither here nor there waits for consumers, and may be moved another time."""
    await backlog(broker)
    read, asked = broker.node.services.threads.read, list[ReadPage]()

    def fails_once(request: ReadPage) -> None:
        if isinstance(request.partition, PartitionJob):
            asked.append(request)
            if len(asked) == 2:
                raise ValueError("a mistake")
        read(request)

    monkeypatch.setattr(broker.node.services.threads, "read", fails_once)
    caplog.handler.addFilter(lambda record: "a mistake" not in record.getMessage())
    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(ValueError, match="a mistake"):
            await take(broker, action, to="other", limit=BACKLOG_COUNT)
    assert await ready_counts(broker) == {"q": BACKLOG_COUNT, "other": 0}

    assert (await take(broker, action, to="other", limit=BACKLOG_COUNT)).done_count == BACKLOG_COUNT
    await has_the_backlog(broker, "other")


async def test_a_queue_to_move_to_has_to_be_there_and_another_one(broker: RunningBroker) -> None:
    await create(broker)
    with pytest.raises(QueueNotFound, match="'none'"):
        await take(broker, MOVE, to="none")
    with pytest.raises(QueueInvalid, match="it is the queue of the messages"):
        await take(broker, MOVE, to="q")


async def test_dead_messages_go_back_to_where_they_died_as_they_were_published(broker: RunningBroker) -> None:
    await create(broker, DMQ)
    await create(broker, "a", subscriptions=["a"])
    await create(broker, "b", subscriptions=["b"])
    await died(broker, "1", name="a", topic="a", properties=mqtt.user_property("mine", "x"))
    await died(broker, "2", name="b", topic="b")

    view = await redriven(broker)

    assert (view.state, view.done_count, view.kept) == ("done", 2, {})
    (message,) = [await (await consumer(broker, "a")).message()]
    assert (message.payload, message.topic) == (b"1", "a")
    assert message.values(38) == [("mine", "x"), ("sluicegate-partition", "0")]
    assert await payloads(broker, "b") == ["2"]
    assert await payloads(broker, DMQ) == []


async def test_a_message_whose_queue_is_gone_stays_and_is_reported(broker: RunningBroker) -> None:
    await create(broker, DMQ, subscriptions=["direct"])
    await create(broker, subscriptions=["t"])
    await create(broker, "other")
    await died(broker, "1", "2")
    await published(broker, "never alive", topic="direct")
    await NodeOperations(broker.node).delete_queue("q")

    view = await redriven(broker)
    assert (view.done_count, view.kept) == (0, {"queue_not_found": 2, "not_dead": 1})

    view = await redriven(broker, to="other", dead_queue="q")
    assert (view.done_count, view.kept) == (2, {})
    assert await payloads(broker, DMQ) == ["never alive"]
    assert [message.dead for message in await NodeOperations(broker.node).browse_queue("other")] == [None, None]


async def test_a_redrive_takes_what_its_filter_says(broker: RunningBroker) -> None:
    await create(broker, DMQ)
    await create(broker, subscriptions=["t"], respect_ttl_enabled=True)
    await died(broker, "rejected")
    await published(broker, "late", properties=mqtt.message_expiry(10))
    broker.clock.forward(11)
    worker = await consumer(broker)
    await shows(broker, lambda view: view.ready_count == 2, DMQ)
    await worker.vanish()

    assert (await redriven(broker, dead_reason="expired")).done_count == 1
    assert await payloads(broker, DMQ) == ["rejected"]
    assert await payloads(broker, "q") == ["late"]


async def test_a_redrive_goes_no_faster_than_its_rate_by_the_clock_of_the_node(broker: RunningBroker) -> None:
    await create(broker, DMQ)
    await create(broker, subscriptions=["t"])
    await died(broker, "1", "2", "3", "4")

    view = await redriven(broker, rate=20)

    assert view.done_count == 4
    assert view.ended_ms is not None
    assert view.ended_ms - view.started_ms >= (4 - 1) * 1000 // 20 - 1
    assert await payloads(broker, "q") == ["1", "2", "3", "4"]


async def test_a_cancelled_redrive_is_taken_up_where_it_ended(broker: RunningBroker) -> None:
    await create(broker, DMQ)
    await create(broker, subscriptions=["t"])
    numbers = [str(number) for number in range(20)]  # twenty seconds' worth
    await died(broker, *numbers)
    node = NodeOperations(broker.node)
    await node.start_redrive(DMQ, selection_from_dict({"rate": 1}, FIELDS_OF_REDRIVE))
    await shows(broker, lambda view: view.ready_count > 0)
    with pytest.raises(Refused, match="is running"):
        await node.start_redrive(DMQ, selection_from_dict({}, FIELDS_OF_REDRIVE))

    view = await node.cancel_redrive(DMQ)
    assert (view.state, (await node.show_redrive(DMQ)).state) == ("cancelled", "cancelled")
    assert len(await payloads(broker, DMQ)) + len(await payloads(broker, "q")) == 20

    assert (await redriven(broker)).state == "done"
    assert await payloads(broker, "q") == numbers


async def test_a_redrive_that_fails_says_so_and_another_one_may_begin(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault of the gateway's own costs that re-drive, and not all later ones of its queue."""
    await create(broker, DMQ)
    await create(broker, subscriptions=["t"])
    await died(broker, "1", "2", "3")
    node = NodeOperations(broker.node)
    await node.start_redrive(DMQ, selection_from_dict({"rate": 1}, FIELDS_OF_REDRIVE))
    (redrive,) = [each for each in broker.node.default.cell.children or () if each.kind == "redrive"]
    caplog.handler.addFilter(lambda record: "a mistake" not in record.getMessage())
    redrive.failed(ValueError("a mistake"))
    view = await node.show_redrive(DMQ)
    assert (view.state, view.failure) == ("failed", "a fault of the gateway; its log says more")
    assert view.ended_ms is not None
    assert (await node.cancel_redrive(DMQ)).state == "failed"
    assert (await redriven(broker)).state == "done"
    assert await payloads(broker, "q") == ["1", "2", "3"]


async def test_of_two_concurrent_redrives_one_is_refused_as_already_running(broker: RunningBroker) -> None:
    """Else two would run, and one of them nobody could see or end."""
    await create(broker, DMQ)
    await create(broker, subscriptions=["t"])
    await died(broker, "1", "2", "3")
    node, slowly = NodeOperations(broker.node), selection_from_dict({"rate": 1}, FIELDS_OF_REDRIVE)
    begun, refused = await asyncio.gather(
        node.start_redrive(DMQ, slowly), node.start_redrive(DMQ, slowly), return_exceptions=True
    )
    assert isinstance(begun, RedriveView)
    assert isinstance(refused, Refused)
    assert (await node.cancel_redrive(DMQ)).state == "cancelled"


async def test_messages_that_die_again_wait_for_the_next_redrive(broker: RunningBroker) -> None:
    """Else a poisonous message would go round for ever."""
    await create(broker, DMQ)
    await create(broker, subscriptions=["t"])
    await died(broker, "poison")
    worker = await consumer(broker)

    view = await redriven(broker)
    worker.send(mqtt.puback((await worker.message()).packet_id, 0x83))
    await shows(broker, lambda view: view.ready_count == 1, DMQ)

    assert (view.state, view.done_count) == ("done", 1)
    (message,) = await NodeOperations(broker.node).browse_queue(DMQ)
    assert message.dead is not None
    assert (message.dead.queue, message.dead.via) == ("q", ())


async def test_a_redrive_of_a_queue_that_is_deleted_meanwhile_ends(broker: RunningBroker) -> None:
    await create(broker, DMQ)
    await create(broker, subscriptions=["t"])
    await died(broker, *[str(number) for number in range(20)])
    node = NodeOperations(broker.node)
    await node.start_redrive(DMQ, selection_from_dict({"rate": 1}, FIELDS_OF_REDRIVE))
    await shows(broker, lambda view: view.ready_count > 0)
    await node.delete_queue(DMQ)
    await create(broker, DMQ)

    async with asyncio.timeout(3 * DEADLINE_S):
        while (await node.show_redrive(DMQ)).state == "running":
            await asyncio.sleep(0.01)
    assert (await node.show_redrive(DMQ)).state == "failed"
