"""kill -9 during writes of a good and a broken PUBLISH: honest publishers lose no confirmed message.

If half a message was stored, the next start would set aside the whole journal record with messages of other publishers.
"""

import asyncio
from pathlib import Path

import pytest

from sluicegate.messaging.message.headers import Headers
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frames.publish import PubAck, write_publish
from sluicegate.protocols.flow.codec.frames.session import Error
from support.flow.client import FlowClient
from support.processes.gateway import GatewayProcess

HONEST = ("q0", "q1", "q2", "q3")
WRITES = 30
WINDOW = 100
MARK = "mark"  # stands where a key is broken afterwards

pytestmark = [pytest.mark.crash, pytest.mark.slow]


async def publish_for_ever(gateway: GatewayProcess, queue: str, answered: dict[str, int]) -> None:
    """Publish, and note through which sequence everything is confirmed, until the gateway is gone."""
    client = FlowClient(gateway.ports["flow"], name=f"to-{queue}")
    await client.open()
    opened = await client.opens_publisher(window=WINDOW)
    next_sequence, limit = 1, opened.sequence_max
    try:
        while True:
            client.publishes(opened.flow_id, list(range(next_sequence, limit + 1)), queue=queue)
            next_sequence = limit + 1
            ack = await client.heard(PubAck)
            answered[queue], limit = ack.answered_through, ack.sequence_max
    finally:
        client.cut()
        await client.ended()


def frame_of(flow_id: int, sequence: int, key: str) -> bytes:
    """Return a PUBLISH to the queue `broken`; MARK in it is no UTF-8."""
    payload, headers = str(sequence).encode(), Headers(partition_key=key)
    frame = write_publish(flow_id, sequence, "broken", payload, headers, to_queue=True, ttl_ms=0, delay_ms=0)
    return frame.replace(MARK.encode(), b"\xff\xfe\xfd\xfc")


async def write_broken_ones(gateway: GatewayProcess) -> None:
    """Write a good and a broken PUBLISH at once, again and again."""
    for _ in range(WRITES):
        client = FlowClient(gateway.ports["flow"], name="hostile")
        await client.open()
        flow_id = (await client.opens_publisher()).flow_id
        client.send(frame_of(flow_id, 1, "good") + frame_of(flow_id, 2, MARK))
        assert (await client.heard(Error)).code == codes.MALFORMED
        await client.ended()


async def publish_beside_broken_ones(gateway: GatewayProcess) -> dict[str, int]:
    """Return what was confirmed when the gateway is killed."""
    answered = dict.fromkeys(HONEST, 0)
    honest = [asyncio.create_task(publish_for_ever(gateway, queue, answered)) for queue in HONEST]
    await write_broken_ones(gateway)
    while not all(answered.values()):  # the machine may be busy with something else
        await asyncio.sleep(0.01)
    gateway.kill9()
    confirmed = dict(answered)  # what arrives from now on was sent before, and only adds to it
    for task in honest:
        task.cancel()
    await asyncio.gather(*honest, return_exceptions=True)
    return confirmed


async def payloads_of(gateway: GatewayProcess, queue: str, count: int) -> list[bytes]:
    async with FlowClient(gateway.ports["flow"]) as client:
        flow_id = await client.binds(queue, credit=count, unsettled_max=10_000)
        got = await client.receives_in_all(count, flow_id)
        return [each.payload for each in got]


def test_confirmed_messages_survive_broken_publishes_of_others_and_a_kill(tmp_path: Path) -> None:
    """Flow: publishing; errors."""
    with GatewayProcess(tmp_path) as gateway:
        for queue in (*HONEST, "broken"):
            gateway.create_queue(queue)
        confirmed = asyncio.run(publish_beside_broken_ones(gateway))
        gateway.start()

        assert gateway.metric("sluicegate_spool_damaged_records_total") == 0
        for queue, through in confirmed.items():
            assert through > 0
            payloads = asyncio.run(payloads_of(gateway, queue, min(through, 5_000)))
            assert payloads == [str(sequence).encode() for sequence in range(1, len(payloads) + 1)]
            assert gateway.held_count(queue) >= through
        assert set(asyncio.run(payloads_of(gateway, "broken", gateway.held_count("broken")))) == {b"1"}
