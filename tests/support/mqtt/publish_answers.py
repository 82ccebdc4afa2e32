"""The responses to a publish, with the reason in words."""

import support.mqtt.packets as mqtt
from support.mqtt.raw_client import RawClient

IMPLEMENTATION_SPECIFIC_ERROR = 0x83


async def answer_to(
    client: RawClient, payload: bytes = b"m", *, topic: str = "t", properties: bytes = b""
) -> tuple[int, str]:
    """Publish with QoS 1; return reason code and Reason String of the PUBACK."""
    packet_id = client.next_packet_id()
    client.send(mqtt.publish(topic, payload, level=5, qos=1, packet_id=packet_id, properties=properties))
    body = (await client.awaited(mqtt.PUBACK)).body
    if len(body) == 2:
        return 0, ""
    if len(body) == 3:
        return body[2], ""
    length, start = mqtt.varint_at(body, 3)
    [(_, text)] = mqtt.properties_of(body[start : start + length])
    return body[2], str(text)
