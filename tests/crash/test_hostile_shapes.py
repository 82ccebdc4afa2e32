"""Messages with very large properties or topics, or many tiny ones: every limit bounds the memory that they take.

Method: fill one limit of a real gateway with messages of one shape until it refuses or drops them, then measure how
much the process and its data folder have grown.
"""

import asyncio
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.protocols.amqp.codec.delivery_states import ACCEPTED
from sluicegate.protocols.amqp.types.encoding import encode
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Described, Symbol, ulong
from support.amqp.client import AmqpClient
from support.hostile.message_shapes import (
    DISK_SLACK,
    KEPT,
    MIB,
    QUOTA_EXCEEDED,
    SHAPES,
    SLACK,
    Shape,
    disk_bytes,
    fill,
    resident_bytes,
    tiny,
    with_a_long_topic,
    with_many_properties,
    with_properties,
)
from support.mqtt.raw_client import RawClient
from support.processes.gateway import GatewayProcess, gateway

LIMIT = 32 * MIB
LARGE_LIMIT = 192 * MIB  # far more than the process may grow by with MEMORY, KEPT and SLACK
MEMORY = 16 * MIB  # of all messages of durable queues
SESSION_LIMIT = 64 * MIB

pytestmark = [pytest.mark.crash]


@pytest.mark.parametrize("quota", ["queue", "vpn", "node"])
@SHAPES
def test_a_quota_of_durable_queues_bounds_memory_and_disk(tmp_path: Path, quota: str, shape: Shape) -> None:
    """The queue's own, that of its message VPN, and the node's.

    Of large messages so many fit into the quota that the process would show if they stayed in memory. Of small ones
    that would take minutes: there the node's own figure says what it holds.
    """
    limit = LARGE_LIMIT if shape in (with_properties, with_a_long_topic) else LIMIT
    settings = {"queue": {}, "vpn": {"vpn__usage_bytes_max": limit}, "node": {"spool__usage_bytes_max": limit}}[quota]
    of_queue: dict[str, object] = {"max_msg_spool_usage": limit // MIB} if quota == "queue" else {}
    with gateway(tmp_path, spool__memory_bytes_max=MEMORY, **settings) as node:
        node.create_queue("fill", vpn=DEFAULT_VPN, subscriptions=["fill/>"], **of_queue)
        memory_before, disk_before = resident_bytes(node), disk_bytes(node)

        codes = asyncio.run(fill(node, shape, window=500 if shape is tiny else 4, messages_max=limit // 128 + 1000))

        assert codes[-1] == QUOTA_EXCEEDED, "the quota is reached, whatever the messages look like"
        assert disk_bytes(node) - disk_before <= 1.5 * limit + DISK_SLACK
        assert resident_bytes(node) - memory_before <= 1.5 * MEMORY + KEPT + SLACK
        assert node.metric("sluicegate_message_bytes") <= MEMORY


@SHAPES
def test_the_limit_of_a_temporary_queue_bounds_memory(tmp_path: Path, shape: Shape) -> None:
    """Each tiny message comes alone: nothing shares a batch with it."""
    with gateway(tmp_path) as node:
        node.create_queue("fill", subscriptions=["fill/>"], durable=False, max_msg_spool_usage=LIMIT // MIB)
        before = resident_bytes(node)

        codes = asyncio.run(fill(node, shape, window=1 if shape is tiny else 4, messages_max=LIMIT // 512 + 1000))

        assert codes[-1] == QUOTA_EXCEEDED, "the quota is reached, whatever the messages look like"
        assert resident_bytes(node) - before <= 1.5 * LIMIT + SLACK


async def fill_session(node: GatewayProcess, shape: Shape, messages_count: int) -> int:
    """Publish to a session that settles nothing and is not kept; return the memory that the gateway has at the end."""
    reader = await RawClient.open(node.mqtt_port, 5)
    await reader.connect("reader", properties=mqtt.receive_maximum(1))
    await reader.subscribe("fill/#", qos=1)
    client = await RawClient.open(node.mqtt_port, 5)
    await client.connect("filler")
    for number in range(messages_count):
        client.send(shape(1 + number % 60_000, 1))
        await client.answered(mqtt.PUBACK, 1 + number % 60_000)
    resident = resident_bytes(node)
    await client.leave()
    await reader.vanish()
    return resident


@pytest.mark.parametrize(("shape", "messages_count"), [(with_properties, 250), (with_many_properties, 2_000)])
def test_the_limit_of_a_session_that_is_not_kept_bounds_memory(
    tmp_path: Path, shape: Shape, messages_count: int
) -> None:
    """What comes beyond is dropped for it, and counted."""
    with gateway(tmp_path) as node:
        before = resident_bytes(node)

        after = asyncio.run(fill_session(node, shape, messages_count))

        assert after - before <= 1.5 * SESSION_LIMIT + SLACK
        assert node.metric("sluicegate_messages_dropped_total", reason="endpoint_usage_exceeded") > 0


def in_deep_maps() -> bytes:
    """An AMQP message of an empty body, with message annotations that are maps within maps."""
    value: AmqpValue = "end"
    for _ in range(30):
        value = AmqpMap([("k", value), ("n", [1, 2, 3])])
    annotations = AmqpMap([(Symbol(f"x-{number}"), value) for number in range(60)])
    return encode(Described(ulong(0x72), annotations)) + encode(Described(ulong(0x75), b""))


def with_application_properties() -> bytes:
    """An AMQP message of an empty body, with a thousand application properties."""
    properties = AmqpMap([(f"k{number}", "v") for number in range(1000)])
    return encode(Described(ulong(0x74), properties)) + encode(Described(ulong(0x75), b""))


async def fill_from_amqp(node: GatewayProcess, message: bytes) -> bool:
    """Send until a message is not accepted; return whether one was not."""
    client = await AmqpClient.open(node.amqp_port)
    await client.sender("filler", "fill")
    refused = False
    while not refused and client.sent_count < LIMIT // 1000:
        refused = (await client.outcome(client.transfer(9, message))).code != ACCEPTED
    await client.close()
    return refused


@pytest.mark.parametrize("message", [in_deep_maps(), with_application_properties()], ids=["deep maps", "properties"])
def test_all_sections_of_amqp_messages_count_against_the_quota(tmp_path: Path, message: bytes) -> None:
    with gateway(tmp_path) as node:
        node.create_queue("fill", subscriptions=["fill/>"], durable=False, max_msg_spool_usage=LIMIT // MIB)
        before = resident_bytes(node)

        assert asyncio.run(fill_from_amqp(node, message)), "the quota is reached"

        assert resident_bytes(node) - before <= 1.5 * LIMIT + SLACK
