"""A temporary queue belongs to the connection that created it: no other consumes or reads it, and any may send to it.

Solace 4.11, JMS 6.2.2.
"""

import httpx
import pytest

from sluicegate.actors.messages.directory import FindQueue, LocalQueue
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frame import PROVISION
from sluicegate.protocols.flow.codec.frames.flow import Bind, Bound
from sluicegate.protocols.flow.codec.frames.provision import TEMPORARY, Provision, Provisioned
from support.amqp.client import AmqpClient
from support.amqp.temporary_nodes import made_queue
from support.broker.inside_client import until
from support.broker.protocol_clients import OK, Amqp, FlowProtocol, Http, Mqtt, ProtocolClient
from support.broker.running_broker import RunningBroker
from support.flow.bulk_client import BulkClient
from support.flow.client import FlowClient, Refused
from support.http.client import http_client

NAME = "mine"  # of the creator and, as names can be chosen, of those who want its queue
LOCKED = "amqp:resource-locked"


async def makes_queue(client: FlowClient) -> str:
    """Have the gateway make a queue for replies; return its name."""
    _, request_id = client.ids()
    client.send(Provision(PROVISION, request_id, "", TEMPORARY, b"").encode())
    return (await client.heard(Provisioned)).name


async def browses(client: FlowClient, queue: str) -> None:
    flow_id, request_id = client.ids()
    client.send(Bind(flow_id, request_id, queue, 0, 10, False, "", True).encode())
    await client.heard(Bound, lambda bound: bound.request_id == request_id)


async def is_over(broker: RunningBroker) -> None:
    """Wait until the gateway knows of no flow connection any more."""
    await until(lambda: not broker.node.flow.open_connections(), "the end of the connection")


@pytest.mark.parametrize("name", [NAME, "another"])
@pytest.mark.parametrize(("other", "refused"), [(Mqtt, 0x87), (Amqp, LOCKED), (FlowProtocol, codes.PERMISSION_DENIED)])
@pytest.mark.parametrize("maker", ["flow", "amqp"])
async def test_only_the_creator_s_connection_consumes(
    broker: RunningBroker, maker: str, other: type[Mqtt | Amqp | FlowProtocol], refused: int | str, name: str
) -> None:
    """Whatever the other client calls itself, and whichever protocol it speaks. It may answer there."""
    flow, amqp = FlowClient(broker.flow_port, name=NAME), await AmqpClient.open(broker.amqp_port, NAME)
    await flow.open()
    queue = await makes_queue(flow) if maker == "flow" else await made_queue(amqp)
    client: ProtocolClient = other(broker, name)
    assert await client.connect("", "") == OK
    assert await client.bind(queue) == refused
    assert await client.send(queue) == OK
    await client.leave()
    if maker == "flow":
        await flow.receives_in_all(1, await flow.binds(queue))
    else:
        amqp.flow(0, 1)
        await amqp.delivery()
    await flow.close()
    await amqp.close()


@pytest.mark.parametrize("query", ["", "?browse=true"])
async def test_a_worker_over_http_does_not_get_it_by_a_name(broker: RunningBroker, query: str) -> None:
    """HTTP: any request may carry any `Solace-Client-Name`."""
    async with FlowClient(broker.flow_port, name=NAME) as flow, http_client(broker) as worker:
        queue = await makes_queue(flow)
        path = f"/QUEUE/{queue.replace('$', '%24')}{query}"
        answer = await worker.get(path, headers={"Solace-Client-Name": NAME})
        assert answer.status_code == httpx.codes.FORBIDDEN
        assert "temporary queue" in answer.text
        other = Http(broker)
        assert await other.send(queue) == OK
        await other.leave()


async def test_another_connection_of_the_same_client_neither_browses_nor_reads_it(broker: RunningBroker) -> None:
    """It may try again later: the first connection may be lost without the gateway knowing it yet."""
    async with FlowClient(broker.flow_port, name=NAME) as flow, BulkClient(broker.flow_port, name=NAME) as again:
        queue = await makes_queue(flow)
        with pytest.raises(Refused) as refusal:
            await browses(again, queue)
        assert refusal.value.error.code == codes.PERMISSION_DENIED
        assert refusal.value.error.retry_after_ms is not None
        assert "belongs to another connection of client 'mine'" in refusal.value.error.text
        with pytest.raises(Refused) as refusal:
            await again.reads(queue)
        assert refusal.value.error.code == codes.PERMISSION_DENIED
        await browses(flow, queue)
        (view,) = [each for each in await NodeOperations(broker.node).list_queues() if each.name == queue]
        assert view.bind_refusals == {"owner_connected": 1}


async def test_a_client_that_connects_again_takes_its_queue_over(broker: RunningBroker) -> None:
    """Solace 4.11: within the grace time. Then the queue is the new connection's."""
    flow = FlowClient(broker.flow_port, name=NAME)
    await flow.open()
    queue = await makes_queue(flow)
    flow.cut()
    await flow.ended()
    await is_over(broker)
    async with FlowClient(broker.flow_port, name="another") as other:
        with pytest.raises(Refused) as refusal:
            await other.binds(queue)
        assert refusal.value.error.retry_after_ms is None
    async with FlowClient(broker.flow_port, name=NAME) as back, FlowClient(broker.flow_port, name=NAME) as third:
        await back.binds(queue)
        with pytest.raises(Refused):
            await third.binds(queue)


async def test_a_temporary_queue_that_an_operator_creates_is_nobody_s(broker: RunningBroker) -> None:
    await NodeOperations(broker.node).create_queue({"name": "q", "access_type": "non-exclusive"}, durable=False)
    for client in (Mqtt(broker, "a"), Amqp(broker, "b"), FlowProtocol(broker, "c")):
        assert await client.connect("", "") == OK
        assert await client.bind("q") == OK
        await client.leave()
    found: LocalQueue | None = await broker.node.default.queues.ask(FindQueue("q"))
    assert found is not None
