"""kill -9 while a named publisher of the flow protocol sends: it returns, and each message is there once, in order.

The gateway is killed repeatedly as it sends a response. So earlier messages are confirmed, and of the later ones some
have arrived and some have not.
"""

import asyncio
from pathlib import Path

import pytest

from sluicegate.protocols.flow.codec.frames.publish import PubAck
from support.flow.client import FlowClient
from support.processes.gateway import GatewayProcess

ROUNDS = 3
WINDOW = 200
ANSWERED_EACH_ROUND = 500

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(400)]


async def publish_and_kill(gateway: GatewayProcess, answered_through: int, sent_through: int) -> tuple[int, int]:
    """Publish until enough is answered, and kill the gateway at that moment; return both counts as they are then."""
    client = FlowClient(gateway.ports["flow"])
    await client.open()
    opened = await client.opens_publisher("till", window=WINDOW)
    assert answered_through <= opened.stored_through <= opened.stored_highest <= sent_through, (
        "none is lost or invented"
    )
    answered_through, next_sequence, limit = opened.stored_through, opened.stored_through + 1, opened.sequence_max
    enough = answered_through + ANSWERED_EACH_ROUND
    while answered_through < enough:
        client.publishes(opened.flow_id, list(range(next_sequence, limit + 1)), queue="q")
        next_sequence = limit + 1
        ack = await client.heard(PubAck)
        assert ack.refusals == []
        answered_through, limit = ack.answered_through, ack.sequence_max
    client.publishes(opened.flow_id, list(range(next_sequence, limit + 1)), queue="q")
    gateway.kill9()
    client.cut()
    await client.ended()
    return answered_through, max(sent_through, limit)


async def finish_and_read(gateway: GatewayProcess, sent_through: int) -> list[bytes]:
    """Send what is left, and return everything that lies in the queue."""
    async with FlowClient(gateway.ports["flow"]) as client:
        opened = await client.opens_publisher("till", window=WINDOW)
        through, limit = opened.stored_through, opened.sequence_max
        sequence = through + 1
        while through < sent_through:
            last = min(limit, sent_through)
            client.publishes(opened.flow_id, list(range(sequence, last + 1)), queue="q")
            sequence = last + 1
            ack = await client.heard(PubAck)
            through, limit = ack.answered_through, ack.sequence_max
        flow_id = await client.binds("q", credit=10 * sent_through, unsettled_max=10_000)
        return [each.payload for each in await client.receives_in_all(gateway.held_count("q"), flow_id)]


def test_a_publisher_stores_nothing_twice_over_crashes_of_the_gateway(tmp_path: Path) -> None:
    """Flow: publishing, resumption."""
    with GatewayProcess(tmp_path) as gateway:
        gateway.create_queue("q")
        answered_through = sent_through = 0
        for _ in range(ROUNDS):
            answered_through, sent_through = asyncio.run(publish_and_kill(gateway, answered_through, sent_through))
            gateway.start()
        payloads = asyncio.run(finish_and_read(gateway, sent_through))

    assert payloads == [str(sequence).encode() for sequence in range(1, sent_through + 1)]
