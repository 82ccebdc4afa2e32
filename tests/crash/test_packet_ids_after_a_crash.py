"""kill -9 while a client has unacknowledged messages: redelivery sets DUP and keeps packet ids (3.3.1.1, 4.4)."""

import asyncio
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from support.mqtt.packets import Published
from support.mqtt.raw_client import RawClient
from support.processes.gateway import GatewayProcess

pytestmark = pytest.mark.crash

PROPERTIES = mqtt.session_expiry(3600) + mqtt.receive_maximum(3)


async def connected(gateway: GatewayProcess, client_id: str, level: int) -> RawClient:
    client = await RawClient.open(gateway.mqtt_port, level)
    properties = PROPERTIES if level == 5 else b""
    assert (await client.connect(client_id, clean_start=False, properties=properties)).reason_code == 0
    return client


async def over_a_crash(gateway: GatewayProcess, qos: int, level: int) -> tuple[list[Published], list[Published]]:
    """Return two messages as sent before the crash, and as sent after it, with one behind them that is new."""
    client = await connected(gateway, "patient", level)
    await client.subscribe("t", qos=qos)
    publisher = await connected(gateway, "publisher", 4)
    for number in range(2):
        assert await publisher.publish("t", b"%d" % number, qos=qos) == 0
    sent = [await client.message() for _ in range(2)]
    gateway.kill9()
    await client.vanish()
    await publisher.vanish()
    gateway.start()
    client = await connected(gateway, "patient", level)
    found = await client.messages(2)
    publisher = await connected(gateway, "publisher", 4)
    assert await publisher.publish("t", b"new", qos=qos) == 0
    found += await client.messages(1)
    await client.leave()
    await publisher.leave()
    return sent, found


@pytest.mark.parametrize("level", [4, 5])
@pytest.mark.parametrize("qos", [1, 2])
def test_messages_possibly_sent_before_come_with_dup_and_at_qos_2_under_their_id(
    tmp_path: Path, qos: int, level: int
) -> None:
    """[3.3.1-1] [4.4.0-1]: a message that the broker has never sent comes without DUP."""
    with GatewayProcess(tmp_path) as gateway:
        sent, (first, second, new) = asyncio.run(over_a_crash(gateway, qos, level))
    assert [first.payload, second.payload, new.payload] == [b"0", b"1", b"new"]
    assert [first.dup, second.dup, new.dup] == [True, True, False]
    if qos == 2:
        assert [first.packet_id, second.packet_id] == [each.packet_id for each in sent]


async def told_first_after_a_crash(gateway: GatewayProcess, *filters: str) -> tuple[Published, mqtt.Packet]:
    """Return a QoS 2 message as it was sent before the crash, and what the client is told first behind its CONNACK."""
    publisher = await connected(gateway, "publisher", 5)
    assert await publisher.publish("t", b"retained, and queued", qos=2, retain=True) == 0
    client = await connected(gateway, "patient", 5)
    await client.subscribe(*filters, qos=2)
    sent = await client.message()
    gateway.kill9()
    await client.vanish()
    await publisher.vanish()
    gateway.start()
    client = await connected(gateway, "patient", 5)
    told = await client.packet()
    await client.vanish()  # a named queue's message is on its way again
    return sent, told


@pytest.mark.parametrize("filter_text", ["$queue/q", "t"])
def test_a_packet_id_is_released_before_another_message_uses_it(tmp_path: Path, filter_text: str) -> None:
    """[4.3.3-1] [4.4.0-1]: the client has the message, and would pass over another one under its packet id.

    A named queue sends it to anybody, under another id; a retained message is not sent again.
    """
    with GatewayProcess(tmp_path) as gateway:
        gateway.create_queue("q", subscriptions=["t"])
        sent, told = asyncio.run(told_first_after_a_crash(gateway, filter_text))
    assert (told.kind, mqtt.packet_id_of(told)) == (mqtt.PUBREL, sent.packet_id)
