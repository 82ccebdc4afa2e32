"""Queues that the gateway makes for sessions and subscriptions: to clients that name them they are not there.

Else whoever knows a client identifier would get its messages. Operators see them (docs/concepts/queues.md).
"""

from collections.abc import Callable
from typing import Final
from urllib.parse import quote

import pytest

from sluicegate.protocols.amqp.codec.performatives import Detach
from sluicegate.protocols.amqp.codec.termini import COPY, Source
from sluicegate.protocols.amqp.types.errors import NOT_FOUND
from sluicegate.protocols.flow.codec import codes
from support.amqp.client import AmqpClient
from support.broker.named_queues import shown
from support.broker.protocol_clients import OK, Amqp, Answer, FlowProtocol, Http, Mqtt, ProtocolClient
from support.broker.running_broker import RunningBroker
from support.flow.bulk_client import BulkClient
from support.flow.client import Refused

OWN: Final = "#mqtt/device"
IN_A_PATH: Final = quote(OWN)


async def waits_for_a_device(broker: RunningBroker) -> None:
    """Have a message wait for a session whose client is away."""
    device = await broker.connect_durable("device")
    await device.subscribe("private", qos=1)
    await device.leave()
    await (await broker.connect()).publish("private")
    assert (await shown(broker, OWN)).ready_count == 1


@pytest.mark.parametrize(
    ("make", "queue", "refused"),
    [
        (Mqtt, OWN, 0x87),
        (Amqp, OWN, "amqp:not-found"),
        (FlowProtocol, OWN, codes.NOT_FOUND),
        (Http, IN_A_PATH, 400),
        (Http, IN_A_PATH + "?browse=true", 400),
    ],
)
async def test_internal_queues_cannot_be_consumed_or_browsed(
    broker: RunningBroker, make: Callable[[RunningBroker, str], ProtocolClient], queue: str, refused: Answer
) -> None:
    await waits_for_a_device(broker)
    client = make(broker, "thief")
    assert await client.connect("", "") == OK
    assert await client.bind(queue) == refused
    await client.leave()
    assert (await shown(broker, OWN)).ready_count == 1


async def test_amqp_clients_neither_browse_them_nor_send_to_them(broker: RunningBroker) -> None:
    await waits_for_a_device(broker)
    client = await AmqpClient.open(broker.amqp_port)
    assert (await client.receiver("look", Source(OWN, distribution_mode=COPY))).source is None
    browsed = await client.awaited(Detach)
    assert (await client.sender("out", f"queue://{OWN}", handle=1)).target is None
    sent = await client.awaited(Detach)
    assert [each.error and each.error.condition for each in (browsed, sent)] == [NOT_FOUND, NOT_FOUND]
    await client.close()


async def test_internal_queues_cannot_be_read_in_bulk(broker: RunningBroker) -> None:
    await waits_for_a_device(broker)
    async with BulkClient(broker.flow_port) as client:
        for request in (
            client.begins_to_read(OWN),
            client.queue_status(OWN),
            client.cuts(1, queue=OWN),
            client.binds_cursor(queue=OWN),
        ):
            with pytest.raises(Refused) as refusal:
                await request
            assert refusal.value.error.code == codes.NOT_FOUND
