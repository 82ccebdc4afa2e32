"""A permission on a queue that changes ends flows of other brokers as it ends those of the queue's own.

The queue is at broker b. Each client is told the same at both brokers.
"""

import pytest

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.protocols.amqp.codec.performatives import Detach
from sluicegate.protocols.amqp.codec.termini import COPY, Source
from sluicegate.protocols.amqp.types.errors import RESOURCE_DELETED
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frames.flow import ENDED, Bind, Bound, FlowState
from support.amqp.client import AmqpClient
from support.broker.linked_brokers import Brokers
from support.broker.named_queues import change, shows
from support.broker.remote_queues import consumer, publish, queue_at_b
from support.flow.client import FlowClient, Refused
from support.http.client import event_stream, http_client

DENIED = "403 Permission Denied: a client without user name has {!r} on queue 'q', and {!r} is needed"
BOTH = pytest.mark.parametrize("at", ["a", "b"])


async def ended_state(client: FlowClient) -> FlowState:
    return await client.heard(FlowState, lambda state: state.state == ENDED)


@BOTH
async def test_a_flow_client_loses_its_flow_and_what_it_held_goes_to_others(network: Brokers, at: str) -> None:
    await queue_at_b(network)
    await publish(network, range(3))
    async with FlowClient(network[at].flow_port) as client:
        await client.receives_in_all(3, await client.binds("q"))
        await change(network["b"], permission="read-only")
        ended = await ended_state(client)
        text = DENIED.format("read-only", "consume")
        assert (ended.code, ended.text, ended.retry_after_ms) == (codes.REVOKED, text, None)
        with pytest.raises(Refused, match="403 Permission Denied") as refused:
            await client.binds("q")
        assert refused.value.error.code == codes.PERMISSION_DENIED
        await shows(network["b"], lambda view: (view.ready_count, len(view.flows)) == (3, 0))
        await change(network["b"], permission="consume")
        found = await client.receives_in_all(3, await client.binds("q"))
        assert all(each.redelivered for each in found)


@BOTH
async def test_an_amqp_receiver_is_detached(network: Brokers, at: str) -> None:
    await queue_at_b(network)
    client = await AmqpClient.open(network[at].amqp_port)
    await client.receiver("r", "queue://q", handle=1, credit=4)
    await change(network["b"], permission="no-access")
    detach = await client.awaited(Detach)
    assert detach.error is not None
    assert (detach.error.condition, detach.error.description) == (
        RESOURCE_DELETED,
        DENIED.format("no-access", "consume"),
    )
    await client.close()


@BOTH
async def test_an_mqtt_client_gets_nothing_more_and_does_not_bind_again(network: Brokers, at: str) -> None:
    await queue_at_b(network)
    client = await consumer(network, at=at)
    await change(network["b"], permission="read-only")
    await shows(network["b"], lambda view: not view.flows)
    await publish(network, range(1))
    await client.is_quiet()
    view = await shows(network["b"], lambda view: view.ready_count == 1)
    assert view.bind_refusals == {}


@BOTH
async def test_an_owner_who_is_replaced_loses_the_flow(network: Brokers, at: str) -> None:
    """Consumers of another broker go by their user's name."""
    await queue_at_b(network)
    async with FlowClient(network[at].flow_port) as client:
        await client.binds("q")
        await change(network["b"], owner="alice", permission="no-access")
        assert (await ended_state(client)).text == DENIED.format("no-access", "consume")


@BOTH
async def test_browsers_end_when_reading_is_no_longer_allowed(network: Brokers, at: str) -> None:
    await queue_at_b(network)
    await publish(network, range(1))
    text = DENIED.format("no-access", "read-only")
    amqp = await AmqpClient.open(network[at].amqp_port)
    await amqp.receiver("r", Source("q", distribution_mode=COPY), handle=1, credit=4)
    async with FlowClient(network[at].flow_port) as flow, http_client(network[at]) as http:
        flow_id, request_id = flow.ids()
        flow.send(Bind(flow_id, request_id, "q", 0, 4, browses=True).encode())
        await flow.heard(Bound)
        async with event_stream(http, "/QUEUE/q", browse="true") as stream:
            await shows(network["b"], lambda view: len(view.flows) == 3)
            await change(network["b"], permission="consume")
            await shows(network["b"], lambda view: len(view.flows) == 3)
            await change(network["b"], permission="no-access")
            assert (await stream.next("end")).data == {"reason": text}
            assert (await ended_state(flow)).text == text
            detach = await amqp.awaited(Detach)
            assert (detach.error is not None, detach.error and detach.error.description) == (True, text)
    await amqp.close()


@BOTH
async def test_a_queue_that_is_shut_down_may_be_bound_again(network: Brokers, at: str) -> None:
    await queue_at_b(network)
    client = await consumer(network, at=at)
    await NodeOperations(network["b"].node).update_queue("q", {"egress_enabled": False})
    await shows(network["b"], lambda view: not view.flows)
    await publish(network, range(1))
    await NodeOperations(network["b"].node).update_queue("q", {"egress_enabled": True})
    assert await client.payloads(1) == [b"0"]
