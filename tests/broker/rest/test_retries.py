"""What a REST delivery point has tried of what it held when it ends or loses its queue, and what it has not."""

import asyncio

from sluicegate.gateway.operations.node import NodeView
from support.broker.named_queues import shows
from support.broker.running_broker import RunningBroker
from support.http.client import create, http_client, publish, ready_count
from support.http.delivery_points import bodies, configure, point, until_settled
from support.http.web_server import Pushed, WebServer, absent


def tries(requests: list[Pushed]) -> list[str]:
    """Return each payload with the delivery count under which it came."""
    return [f"{each.body.decode()}:{each.headers.get('sluicegate-delivery-count', '1')}" for each in requests]


async def test_what_waits_for_a_web_server_is_not_tried_by_changes_of_its_delivery_point(broker: RunningBroker) -> None:
    """docs/rest-delivery-points.md: it waits until a REST consumer can be reached, and that is no try."""
    await create(broker, "dead")
    await create(broker, "q", max_redelivery_count=1, dead_msg_queue="dead")
    server = await absent()
    async with http_client(broker) as client:
        for payload in "123456":
            await client.post("/QUEUE/q", content=payload, headers={"Solace-DMQ-Eligible": "true"})
    for delay_s in (1, 2, 3, 1):
        await configure(broker, point(server, "q", outgoing_connection_count=1, retry_delay_s=delay_s))
        await shows(broker, lambda view: view.unacked_count == 4)
    await server.start()
    assert tries(await server.has(6)) == [f"{payload}:1" for payload in "123456"]
    await until_settled(broker, "q")
    assert await ready_count(broker, "dead") == 0
    await server.stop()


async def test_of_what_a_delivery_point_holds_as_it_ends_only_what_was_sent_has_failed(broker: RunningBroker) -> None:
    await create(broker, "q")
    async with WebServer() as server, http_client(broker) as client:
        server.hold = asyncio.Event()
        await publish(client, "q", "1", "2", "3")
        await configure(broker, point(server, "q", outgoing_connection_count=1))
        await server.has(1)
        await shows(broker, lambda view: view.unacked_count == 3)
        await broker.restart()
        await configure(broker, point(server, "q", outgoing_connection_count=1))
        server.hold.set()
        assert tries(await server.has(4)) == ["1:1", "1:2", "2:1", "3:1"]
        await until_settled(broker, "q")


async def test_what_waits_for_a_web_server_as_its_queue_is_deleted_is_not_pushed(broker: RunningBroker) -> None:
    await create(broker, "q")
    server = await absent()
    async with http_client(broker) as client:
        await publish(client, "q", "1", "2", "3")
        await configure(broker, point(server, "q"))
        await shows(broker, lambda view: view.unacked_count == 3)
        await NodeView(broker.node).delete_queue("q")
        await create(broker, "q")
        await publish(client, "q", "new")
        await server.start()
        assert bodies(await server.has(1)) == ["new"]
        await until_settled(broker, "q")
        await server.stop()
