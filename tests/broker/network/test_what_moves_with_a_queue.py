"""What goes with the messages of a queue that moves from broker b to broker a."""

import pytest

from sluicegate.actors.messages.directory import SetQueueLimits
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import Refused
from sluicegate.messaging.queues.pressure import PressureLimits
from sluicegate.protocols.flow.codec.frames.settle import OUTCOME_FAILED, OUTCOME_RELEASED
from support.broker.linked_brokers import Brokers, until
from support.broker.moving_queues import is_moved, moved, waiting_move, waits_for
from support.broker.named_queues import shows
from support.broker.remote_queues import payloads, publish, queue_at_b
from support.flow.bulk_client import BulkClient
from support.flow.client import FlowClient
from support.flow.client import Refused as FlowRefused


async def delivered(network: Brokers, count: int, *, flow_credit: int) -> FlowClient:
    """Return a consumer at b that holds so many messages of the queue."""
    client = FlowClient(network["b"].flow_port)
    await client.open()
    flow_id = await client.binds("q", credit=flow_credit)
    await client.receives_in_all(count, flow_id)
    return client


async def seen(network: Brokers, count: int) -> list[tuple[bytes, bool, int]]:
    """Return payload, flag and delivery count of each message at a."""
    async with FlowClient(network["a"].flow_port) as client:
        found = await client.receives_in_all(count, await client.binds("q"))
        return [(each.payload, each.redelivered, each.delivery_count) for each in found]


async def test_the_redelivered_flag_and_the_count_of_failed_deliveries_go_with_a_message(network: Brokers) -> None:
    await queue_at_b(network)
    await publish(network, range(4))
    client = await delivered(network, 3, flow_credit=3)
    client.settles(1, 1, 1, OUTCOME_FAILED)
    client.settles(1, 2, 2, OUTCOME_RELEASED)
    await shows(network["b"], lambda view: view.unacked_count == 1)
    await client.close()
    await shows(network["b"], lambda view: view.unacked_count == 0)

    await moved(network)

    assert await seen(network, 4) == [
        (b"0", True, 2),
        (b"1", True, 1),
        (b"2", True, 2),  # its consumer has gone
        (b"3", False, 1),
    ]


async def test_a_message_that_was_tried_as_often_as_it_may_be_is_not_tried_anew_at_the_new_broker(
    network: Brokers,
) -> None:
    await queue_at_b(network, max_redelivery_count=2)
    await publish(network, range(2))
    client = await delivered(network, 2, flow_credit=3)
    client.settles(1, 1, 1, OUTCOME_FAILED)
    await client.receives_in_all(1, 1)
    client.settles(1, 3, 3, OUTCOME_FAILED)
    client.settles(1, 2, 2, OUTCOME_RELEASED)
    await shows(network["b"], lambda view: view.unacked_count == 0)
    await client.close()

    await moved(network)

    async with FlowClient(network["a"].flow_port) as again:
        first, _ = await again.receives_in_all(2, await again.binds("q"))
        assert (first.payload, first.delivery_count) == (b"0", 3)
        again.settles(1, 1, 1, OUTCOME_FAILED)
        view = await shows(network["a"], lambda view: view.spooled_count == 1)
    assert view.discards == {"max_redelivery_exceeded_discarded": 1}


async def test_counts_are_there_after_a_restart_of_the_new_broker(brokers: Brokers) -> None:
    await brokers.pair()
    await brokers.are_linked()
    await queue_at_b(brokers)
    await publish(brokers, range(3))
    client = await delivered(brokers, 1, flow_credit=1)
    client.settles(1, 1, 1, OUTCOME_FAILED)
    await shows(brokers["b"], lambda view: view.unacked_count == 0)
    await client.close()
    await moved(brokers)

    await brokers["a"].stop()
    await brokers["a"].start()

    assert await seen(brokers, 3) == [(b"0", True, 2), (b"1", False, 1), (b"2", False, 1)]


async def test_counts_go_along_by_key_to_the_partitions_of_the_new_broker(network: Brokers) -> None:
    await queue_at_b(network, access_type="non-exclusive", partition_count=4)
    await publish(network, range(40), key=True)
    client = await delivered(network, 40, flow_credit=40)
    client.settles(1, 1, 40, OUTCOME_FAILED)
    await shows(network["b"], lambda view: view.unacked_count == 0)
    await client.close()
    await publish(network, range(40, 60), key=True)

    await moved(network)

    counts = {payload: count for payload, _, count in await seen(network, 60)}
    assert counts == dict.fromkeys(payloads(range(40)), 2) | dict.fromkeys(payloads(range(40, 60)), 1)


async def test_a_queue_whose_ingress_is_shut_down_moves_with_its_messages(brokers: Brokers) -> None:
    """Its new broker takes them whatever the definition says, also when limits are read anew meanwhile."""
    await brokers.pair()
    await brokers.are_linked()
    at_b = NodeOperations(brokers["b"].node)
    await queue_at_b(brokers)
    await publish(brokers, range(5))
    await at_b.update_queue("q", {"ingress_enabled": False})
    await at_b.create_link({"name": "c", "url": ""})
    await at_b.move_queue("q", "a")
    await waits_for(at_b, "link to broker 'c' is down")
    brokers["a"].node.default.queues.inbox.post(
        SetQueueLimits(PressureLimits(high_bytes=9_000, low_bytes=5_000, stall_ms=1), 77)
    )
    await at_b.delete_link("c")
    await until(lambda: brokers["a"].node.default.space.has_queue("q"), "the move")
    view = await shows(brokers["a"], lambda view: view.spooled_count == 5)
    assert not view.config.ingress_enabled


async def test_kept_messages_and_cursors_stay_so_such_a_queue_is_refused_unless_they_may_be_dropped(
    network: Brokers,
) -> None:
    """Positions are sequences of a broker, and the new one numbers its messages anew."""
    at_a, at_b = NodeOperations(network["a"].node), NodeOperations(network["b"].node)
    await queue_at_b(network, retention_size_mb=10)
    await publish(network, range(6))
    client = await delivered(network, 2, flow_credit=2)
    client.settles(1, 1, 2)
    await shows(network["b"], lambda view: view.settled_total == 2)
    await client.close()
    with pytest.raises(Refused, match="keeps messages for readers, which cannot move: --drop-kept deletes"):
        await at_b.move_queue("q", "a")
    async with BulkClient(network["b"].flow_port) as reader:
        await reader.binds_cursor()
    await at_b.update_queue("q", {"retention_size_mb": 0})
    with pytest.raises(Refused, match="has durable cursors, which cannot move: --drop-kept deletes"):
        await at_a.move_queue("q", "a")
    await at_b.update_queue("q", {"retention_size_mb": 10})

    await at_a.move_queue("q", "a", drop_kept=True)
    await is_moved(network)

    view = await shows(network["a"], lambda view: view.spooled_count == 4)
    assert (view.kept_bytes, view.config.retention_size_mb) == (0, 10)
    assert list(await at_b.list_cursors("q")) == []
    assert [each[0] for each in await seen(network, 4)] == payloads(range(2, 6))


async def test_no_cursor_is_made_for_a_queue_that_is_being_moved(brokers: Brokers) -> None:
    await waiting_move(brokers, 3)
    async with BulkClient(brokers["b"].flow_port) as reader:
        with pytest.raises(FlowRefused, match="503 Queue Is Moving"):
            await reader.binds_cursor()
