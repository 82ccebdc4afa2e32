"""Durable cursors on a whole node: fenced bindings, positions that survive, and what is kept for them."""

import asyncio
from dataclasses import replace

import pytest

from sluicegate.actors.messages.queues import BindRefused
from sluicegate.actors.messages.readers import (
    CursorOverview,
    DeleteCursor,
    ListCursors,
    PinCursor,
    UnbindCursor,
)
from sluicegate.gateway.observability.statistics import ReaderBatch
from sluicegate.gateway.operations.metrics import reader_samples
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import CursorNotFound
from sluicegate.messaging.bulk.durable_cursors import (
    AHEAD,
    CONSUME,
    MODE_DIFFERS,
    NO_SUCH_CURSOR,
    NO_SUCH_PARTITION,
    QUEUE_IN_USE,
    CursorFenced,
    CursorLimits,
    CursorRefused,
)
from support.broker.inside_client import InsideClient, until
from support.broker.message_usage import usage_of
from support.broker.running_broker import RunningBroker


async def orders_with(broker: RunningBroker, count: int, **attributes: object) -> InsideClient:
    """A queue with so many numbered messages, one publish each."""
    orders = InsideClient(broker, "orders")
    await orders.create(**attributes)
    for number in range(1, count + 1):
        await orders.publish(b"%d" % number)
    return orders


async def refusal_of(request: object) -> str:
    """Return the code with which a cursor is refused something."""
    with pytest.raises(CursorRefused) as refused:
        await request  # type: ignore[misc]  # whatever can be awaited
    return refused.value.code


async def test_a_tap_reads_what_consumers_have_taken(broker: RunningBroker) -> None:
    orders = await orders_with(broker, 5)
    bound = await orders.bind()
    await orders.publish(b"6")
    await orders.consume_all()

    found, gaps = await orders.read()

    assert list(found.values()) == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert gaps == []
    assert [(each.low, each.acked) for each in bound.positions] == [(1, 1)]
    assert bound.incarnation == broker.node.services.recovered.incarnation


async def test_messages_are_removed_once_all_taps_and_the_queue_have_passed_them(broker: RunningBroker) -> None:
    orders = await orders_with(broker, 5)
    one, other = await orders.bind("one"), await orders.bind("other")
    await orders.consume_all()

    assert await orders.ack(one.epoch, {0: 6}, cursor="one") == [6]
    assert list((await orders.read())[0]) == [1, 2, 3, 4, 5]
    await orders.ack(other.epoch, {0: 4}, cursor="other")

    async def is_trimmed() -> bool:
        return list((await orders.read())[0]) == [4, 5]

    await until(is_trimmed, "what both are done with to go")


async def test_a_newer_binding_fences_the_older(broker: RunningBroker) -> None:
    orders = await orders_with(broker, 2)
    old = await orders.bind(instance="driver-1")
    new = await orders.bind(instance="driver-2")

    assert new.epoch == old.epoch + 1
    with pytest.raises(CursorFenced, match="epoch 1 was fenced by 2 of 'driver-2'"):
        await orders.ack(old.epoch, {0: 2})
    assert await orders.ack(new.epoch, {0: 2}) == [2]


async def test_an_acknowledgement_is_cumulative_and_a_lower_one_changes_nothing(broker: RunningBroker) -> None:
    orders = await orders_with(broker, 5)
    bound = await orders.bind()

    assert await orders.ack(bound.epoch, {0: 4}) == [4]
    assert await orders.ack(bound.epoch, {0: 2}) == [4]
    assert await refusal_of(orders.ack(bound.epoch, {0: 7})) == AHEAD
    assert await refusal_of(orders.ack(bound.epoch, {1: 1})) == NO_SUCH_PARTITION
    assert await refusal_of(orders.ack(bound.epoch, {0: 5}, cursor="other")) == NO_SUCH_CURSOR


@pytest.mark.parametrize("crashes", [True, False])
async def test_position_epoch_and_unread_messages_survive(broker: RunningBroker, crashes: bool) -> None:
    orders = await orders_with(broker, 5, access_type="non-exclusive", partition_count=1)
    bound = await orders.bind(instance="driver-1")
    await orders.consume_all()
    await orders.ack(bound.epoch, {0: 3}, batch_ref="query/7")
    await (broker.crash() if crashes else broker.restart())

    overviews: list[CursorOverview] = await broker.node.default.cursors.ask(ListCursors("orders"))
    again = await orders.bind(instance="driver-2")

    assert [(each.name, each.batch_ref) for each in overviews] == [("c", "query/7")]
    assert again.epoch == 2
    assert again.positions[0].acked == 3
    found, _ = await orders.read(3)
    assert list(found.values())[:3] == [b"3", b"4", b"5"]


@pytest.mark.parametrize("crashes", [True, False])
async def test_a_reader_goes_on_when_the_broker_is_back(broker: RunningBroker, crashes: bool) -> None:
    """spark.md 3.1: a binding survives a restart. So does what the reader has planned, whatever the lag."""
    orders = await orders_with(broker, 3)
    bound = await orders.bind(limits=CursorLimits(lag_bytes_max=1))
    await broker.node.default.cursors.ask(PinCursor("orders", "c", bound.epoch, {0: 4}))
    await orders.consume_all()
    await (broker.crash() if crashes else broker.restart())

    assert [each.acked for each in await orders.status(bound.epoch)] == [1]
    assert list((await orders.read())[0].values()) == [b"1", b"2", b"3"]
    assert await orders.ack(bound.epoch, {0: 4}) == [4]


async def test_a_cursor_in_mode_consume_stays_the_only_consumer_over_a_restart(broker: RunningBroker) -> None:
    """Until it is not heard of for its time, which begins with the broker's start."""
    orders = await orders_with(broker, 1)
    await orders.bind(mode=CONSUME, limits=CursorLimits(heartbeat_ms=60_000))
    broker.clock.forward(59)
    await broker.restart()
    broker.clock.forward(59)

    with pytest.raises(BindRefused, match="consumed by the durable cursor 'c'"):
        await orders.consumer()
    broker.clock.forward(2)

    async def has_ended() -> bool:
        overviews: list[CursorOverview] = await broker.node.default.cursors.ask(ListCursors("orders"))
        return not overviews[0].bound

    await until(has_ended, "the end of the binding")
    assert (await orders.consume_all()).payloads() == [b"1"]


async def test_a_binding_that_has_ended_does_not_come_back(broker: RunningBroker) -> None:
    orders = await orders_with(broker, 1)
    bound = await orders.bind(mode=CONSUME)
    await broker.node.default.cursors.ask(UnbindCursor("orders", "c", bound.epoch))
    await broker.crash()

    with pytest.raises(CursorFenced, match="has ended; bind again"):
        await orders.ack(bound.epoch, {0: 2})
    assert (await orders.consume_all()).payloads() == [b"1"]


async def test_a_silent_binding_ends_and_keeps_its_position(broker: RunningBroker) -> None:
    orders = await orders_with(broker, 3)
    bound = await orders.bind(limits=CursorLimits(heartbeat_ms=5_000))
    await orders.ack(bound.epoch, {0: 3})
    broker.forward(6)

    async def has_ended() -> bool:
        overviews: list[CursorOverview] = await broker.node.default.cursors.ask(ListCursors(None))
        return not overviews[0].bound

    await until(has_ended, "the end of the binding")
    with pytest.raises(CursorFenced, match="has ended; bind again"):
        await orders.ack(bound.epoch, {0: 4})
    assert (await orders.bind()).positions[0].acked == 3


async def test_a_cursor_that_consumes_settles_what_it_acknowledges(broker: RunningBroker) -> None:
    orders = await orders_with(broker, 5)
    bound = await orders.bind(mode=CONSUME)

    await orders.ack(bound.epoch, {0: 4})

    assert (await orders.overview()).partitions[0].ready_count == 2
    await broker.crash()
    assert (await orders.overview()).partitions[0].ready_count == 2


async def test_a_cursor_that_consumes_is_the_only_consumer(broker: RunningBroker) -> None:
    orders = await orders_with(broker, 1)
    bound = await orders.bind(mode=CONSUME)
    with pytest.raises(BindRefused, match="consumed by the durable cursor 'c'"):
        await orders.consumer()
    assert await refusal_of(orders.bind("other", mode=CONSUME)) == QUEUE_IN_USE
    assert (await orders.bind(mode=CONSUME)).epoch == bound.epoch + 1

    await broker.node.default.cursors.ask(UnbindCursor("orders", "c", bound.epoch + 1))
    consumer = await orders.consumer()
    assert await refusal_of(orders.bind(mode=CONSUME)) == QUEUE_IN_USE
    consumer.unbind()
    assert await refusal_of(orders.bind()) == MODE_DIFFERS


async def test_a_long_poll_is_answered_when_something_comes(broker: RunningBroker) -> None:
    orders = await orders_with(broker, 3)
    bound = await orders.bind()
    assert [each.next_sequence for each in await orders.status(bound.epoch)] == [4]

    waiting = asyncio.ensure_future(orders.status(bound.epoch, wait_ms=15_000, above={0: 4}))
    await asyncio.sleep(0)
    await orders.publish(b"4444")
    (position,) = await waiting

    assert position.next_sequence == 5
    assert position.lag_bytes == usage_of("orders/t", b"0", b"0", b"0", b"4444")


async def test_a_long_poll_of_a_fenced_binding_ends(broker: RunningBroker) -> None:
    orders = await orders_with(broker, 1)
    bound = await orders.bind()
    waiting = asyncio.ensure_future(orders.status(bound.epoch, wait_ms=15_000, above={0: 2}))
    await asyncio.sleep(0)

    await orders.bind()

    with pytest.raises(CursorFenced):
        await waiting


async def test_a_cursor_that_lags_too_much_is_released_and_reported(broker: RunningBroker) -> None:
    """spark.md 3.1: exceeding the lag is a loud state, not a silent skip."""
    orders = await orders_with(broker, 3)
    bound = await orders.bind(limits=CursorLimits(lag_bytes_max=100))
    await orders.publish(b"x" * 200)
    await orders.consume_all()

    async def is_let_go() -> bool:
        overviews: list[CursorOverview] = await broker.node.default.cursors.ask(ListCursors("orders"))
        return overviews[0].exceeded

    await until(is_let_go, "a cursor that is let go")
    assert broker.node.services.runtime.events.record.counts["VPN_AD_CURSOR_LAG_EXCEED"] == 1

    async def is_gone() -> bool:
        return (await orders.read())[0] == {}

    await until(is_gone, "what nobody keeps any more to go")

    await orders.ack(bound.epoch, {0: 5})
    assert not (await broker.node.default.cursors.ask(ListCursors("orders")))[0].exceeded


async def test_pinned_messages_are_kept_whatever_the_lag(broker: RunningBroker) -> None:
    orders = await orders_with(broker, 3)
    bound = await orders.bind(limits=CursorLimits(lag_bytes_max=1))
    await broker.node.default.cursors.ask(PinCursor("orders", "c", bound.epoch, {0: 4}))
    await orders.publish(b"x" * 200)
    await orders.consume_all()

    assert len((await orders.read())[0]) == 4
    await broker.node.default.cursors.ask(PinCursor("orders", "c", bound.epoch, {}))

    async def is_let_go() -> bool:
        return (await orders.read())[0] == {}

    await until(is_let_go, "a cursor that is let go once nothing is pinned")


async def test_cursors_go_with_their_queue_or_alone(broker: RunningBroker) -> None:
    orders = await orders_with(broker, 2)
    await orders.bind("a")
    await orders.bind("b")
    await broker.node.default.cursors.ask(DeleteCursor("orders", "a"))
    assert [each.name for each in await broker.node.default.cursors.ask(ListCursors("orders"))] == ["b"]

    await broker.restart()

    assert [each.name for each in await broker.node.default.cursors.ask(ListCursors("orders"))] == ["b"]


async def test_batches_of_readers_are_counted_while_their_cursors_exist(broker: RunningBroker) -> None:
    """docs/operate/metrics.md: there are as many readers as cursors; the next one finds no trace of one gone."""
    orders = await orders_with(broker, 1)
    view, batches = NodeOperations(broker.node), broker.node.default.reader_batches
    batch = ReaderBatch(job="j", reference="q/0", rows_count=1, undecodable_count=0, duration_ms=1)
    for cursor in ("one", "other"):
        await orders.bind(cursor)
        for reference in ("q/0", "q/1", "q/1"):
            await view.add_batch("orders", cursor, replace(batch, reference=reference))
    counted = {
        each.labels[1]: each.value for each in reader_samples(batches) if each.name == "sluicegate_reader_rows_total"
    }
    assert counted == {"one": 2, "other": 2}
    await view.delete_cursor("orders", "one")
    with pytest.raises(CursorNotFound):
        await view.add_batch("orders", "one", batch)
    await orders.bind("third")
    await view.add_batch("orders", "third", batch)
    assert {each.labels[1] for each in reader_samples(batches)} == {"other", "third"}
