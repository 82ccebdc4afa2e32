"""A neighbor that does not announce a feature: what needs it is refused with the reason, and the link stays.

Broker b announces all of them; the way to a hides some.
"""

import pytest

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import Refused as OperationRefused
from sluicegate.gateway.views.queues.selections import SEQUENCE_MAX, ReplayStart
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frames.link import (
    RETAINED,
    TAKES_PACKETS,
    TELLS_CLIENTS,
    TELLS_NEIGHBORS,
    WIDE_WINDOW,
)
from sluicegate.protocols.flow.codec.frames.link_flow import (
    ACTS,
    ANSWERS,
    HOLDS_FOR_CLIENTS,
    SERVES_CONSUMERS,
    SERVES_READERS,
)
from sluicegate.protocols.network.guaranteed.link_queue import WINDOW, WINDOW_BEFORE
from support.broker.linked_brokers import Brokers, until
from support.broker.named_queues import shows
from support.broker.remote_queues import payloads, publish, queue_at_b
from support.flow.bulk_client import BulkClient
from support.flow.client import FlowClient, Refused
from support.http.client import http_client


async def linked_without(brokers: Brokers, *features: str) -> None:
    proxy = await brokers.proxy("a", "b")
    proxy.hide_features(*features)
    await brokers.pair()
    await brokers.are_linked()
    assert proxy.hidden_count == len(features)


async def has_stayed(brokers: Brokers) -> None:
    """Check that the link has had one connection, which works both ways."""
    for one, other in ("ab", "ba"):
        publisher, subscriber = await brokers[one].connect("", 5), await brokers[other].connect("", 5)
        await subscriber.subscribe((f"from/{one}", 1))
        await until(lambda one=one, other=other: f"from/{one}" in brokers[one].wants(other), "the subscription crosses")  # type: ignore[misc]
        await publisher.publish(f"from/{one}", b"direct")
        await publisher.publish(f"from/{one}", b"guaranteed", qos=1)
        assert sorted(await subscriber.payloads(2)) == [b"direct", b"guaranteed"]
    assert (await brokers.proxy("a", "b")).accepted_count == 1
    assert brokers["a"].neighbor("b").is_up


@pytest.mark.parametrize(
    "feature",
    [
        TELLS_NEIGHBORS,
        TAKES_PACKETS,
        RETAINED,
        SERVES_CONSUMERS,
        ANSWERS,
        TELLS_CLIENTS,
        SERVES_READERS,
        ACTS,
        HOLDS_FOR_CLIENTS,
        WIDE_WINDOW,
    ],
)
async def test_messages_cross_whatever_the_neighbor_lacks(brokers: Brokers, feature: str) -> None:
    await linked_without(brokers, feature)
    await has_stayed(brokers)


async def test_an_earlier_release_gets_no_more_at_once_than_it_takes(brokers: Brokers) -> None:
    await linked_without(brokers, WIDE_WINDOW)
    sender = brokers["a"].neighbor("b").vpns[0].queue_sender
    await until(lambda: sender.flow_id > 0)
    assert sender.window == WINDOW_BEFORE

    sender = brokers["b"].neighbor("a").vpns[0].queue_sender
    await until(lambda: sender.flow_id > 0)
    assert sender.window == WINDOW
    config = sender.queue.definition.config
    assert config.max_delivered_unacked_msgs_per_flow >= WINDOW, "the queue gives out as many"


async def test_operators_are_told_to_ask_at_a_broker_that_does_not_answer(brokers: Brokers) -> None:
    await linked_without(brokers, ANSWERS)
    await queue_at_b(brokers)
    operations = NodeOperations(brokers["a"].node)
    text = "queue 'q' is at broker b: broker b is of an earlier release, which does not answer: ask there"
    with pytest.raises(OperationRefused, match=text):
        await operations.show_queue("q")
    with pytest.raises(OperationRefused, match=text):
        await operations.explain_key("q", "k")

    async with FlowClient(brokers["a"].flow_port) as client:
        flow_id = await client.binds("q")
        await publish(brokers, range(3))
        assert [each.payload for each in await client.receives_in_all(3, flow_id)] == payloads(range(3))
    await has_stayed(brokers)


async def test_consumers_and_browsers_are_refused_at_a_broker_that_serves_none(brokers: Brokers) -> None:
    """Messages for the queue cross, and consumers of its own broker get them."""
    await linked_without(brokers, SERVES_CONSUMERS, ANSWERS)
    await queue_at_b(brokers)
    text = "its broker b has a release that serves no consumers of other brokers"
    async with FlowClient(brokers["a"].flow_port) as client, http_client(brokers["a"]) as http:
        with pytest.raises(Refused, match=text) as refused:
            await client.binds("q")
        assert refused.value.error.code == codes.DISABLED
        answer = await http.get("/QUEUE/q", params={"browse": "true"})
        assert (answer.status_code, text in answer.text) == (503, True)
        with pytest.raises(OperationRefused, match=text):
            await NodeOperations(brokers["a"].node).browse_queue("q")

    await publish(brokers, range(3), at="a")
    await shows(brokers["b"], lambda view: view.ready_count == 3)
    await has_stayed(brokers)


async def test_readers_are_refused_at_a_broker_that_serves_none_and_consumers_are_not(brokers: Brokers) -> None:
    await linked_without(brokers, SERVES_READERS)
    await queue_at_b(brokers)
    await publish(brokers, range(3))
    text = "queue 'q': its broker b has a release that serves no readers of other brokers: connect there"
    async with BulkClient(brokers["a"].flow_port) as client:
        for request in (client.begins_to_read(), client.queue_status(), client.binds_cursor()):
            with pytest.raises(Refused, match=text) as refused:
                await request
            assert (refused.value.error.code, refused.value.error.retry_after_ms) == (codes.DISABLED, None)
        flow_id = await client.binds("q")
        assert [each.payload for each in await client.receives_in_all(3, flow_id)] == payloads(range(3))
    await has_stayed(brokers)


async def test_operators_are_told_to_act_at_a_broker_that_does_nothing_for_others(brokers: Brokers) -> None:
    """It answers their questions."""
    await linked_without(brokers, ACTS)
    await queue_at_b(brokers, retention_size_mb=10)
    operations = NodeOperations(brokers["a"].node)
    text = "queue 'q' is at broker b: broker b is of an earlier release, which does nothing for operators elsewhere"
    with pytest.raises(OperationRefused, match=text):
        await operations.replay_queue("q", ReplayStart(), end=SEQUENCE_MAX, partition=None)
    with pytest.raises(OperationRefused, match=text):
        await operations.delete_cursor("q", "c")
    assert (await operations.show_queue("q")).broker == "b"
    await has_stayed(brokers)


async def test_what_is_retained_stays_where_the_neighbor_does_not_exchange_it(brokers: Brokers) -> None:
    await linked_without(brokers, RETAINED)
    publisher, subscriber = await brokers["a"].connect("", 5), await brokers["b"].connect("", 5)
    await subscriber.subscribe(("t", 1))
    await until(lambda: "t" in brokers["a"].wants("b"), "the subscription crosses")
    await publisher.publish("t", b"live", qos=1, retain=True)
    assert await subscriber.payloads(1) == [b"live"]
    assert (brokers["a"].retains(), brokers["b"].retains()) == ({"t": b"live"}, {})
    await has_stayed(brokers)
