"""Sessions with large wills, long names and long filters: limits of a message VPN bound memory and disk.

Method: as in test_hostile_shapes.py. Clients connect, leave their sessions behind, and return under another name.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

import support.mqtt.packets as mqtt
from support.hostile.message_shapes import DISK_SLACK, MIB, QUOTA_EXCEEDED, SLACK, disk_bytes, resident_bytes
from support.mqtt.raw_client import RawClient
from support.processes.gateway import GatewayProcess, gateway

LIMIT = 32 * MIB
CLIENTS_MAX = 40_000
FILTERS_PER_PACKET = 16

pytestmark = [pytest.mark.crash]

Connect = Callable[[int], bytes]


def with_a_large_will(number: int) -> bytes:
    """65 kB, and seven user properties of 60 kB."""
    properties = mqtt.will_delay(100_000) + b"".join([mqtt.user_property("k", "v" * 60_000)] * 7)
    return _connect(f"c{number}", mqtt.WillPart("w", bytes(65_000), properties=properties))


def with_many_will_properties(number: int) -> bytes:
    """A thousand user properties of two bytes."""
    properties = mqtt.will_delay(100_000) + b"".join([mqtt.user_property("k", "v")] * 1000)
    return _connect(f"c{number}", mqtt.WillPart("w", b"", properties=properties))


def with_a_long_name(number: int) -> bytes:
    """A client identifier of 60 kB."""
    return _connect(f"{number}-" + "n" * 60_000, None)


def plain(number: int) -> bytes:
    """Nothing but a session that is kept."""
    return _connect(f"c{number}", None)


def _connect(client_id: str, will: mqtt.WillPart | None) -> bytes:
    return mqtt.connect(client_id, level=5, will=will, properties=mqtt.session_expiry(100_000))


async def leave_sessions(node: GatewayProcess, connect: Connect) -> int:
    """Leave sessions behind until one is refused; return the reason code."""
    for number in range(CLIENTS_MAX):
        client = await RawClient.open(node.mqtt_port, 5)
        client.send(connect(number))
        code = (await client.connack()).reason_code
        await client.vanish()
        if code:
            return code
    return 0


@pytest.mark.parametrize(
    "connect",
    [with_a_large_will, with_many_will_properties, with_a_long_name, plain],
    ids=lambda connect: connect.__name__,
)
def test_the_limit_of_sessions_bounds_memory_and_disk(tmp_path: Path, connect: Connect) -> None:
    """Also after a restart, which reads them all."""
    limit = LIMIT if connect is not plain else LIMIT // 8  # a connection for each takes its time
    with gateway(tmp_path, vpn__session_bytes_max=limit, mqtt__client_id_bytes_max=65_535) as node:
        memory_before, disk_before = resident_bytes(node), disk_bytes(node)

        assert asyncio.run(leave_sessions(node, connect)) == QUOTA_EXCEEDED, "the limit is reached"

        assert disk_bytes(node) - disk_before <= 1.5 * limit + DISK_SLACK
        assert resident_bytes(node) - memory_before <= 1.5 * limit + SLACK
        node.stop()
        node.start()
        assert resident_bytes(node) - memory_before <= 1.5 * limit + SLACK


def with_a_long_filter(number: int) -> str:
    """60 kB."""
    return f"f/{number}/" + "t" * 60_000


def with_many_levels(number: int) -> str:
    """200 levels, of which all but the first are its own; it has a wildcard."""
    return f"+/{number}/" + "/".join("t" * 198)


def short(number: int) -> str:
    """Less than ten bytes."""
    return f"f/{number}"


async def subscribe(node: GatewayProcess, text: Callable[[int], str]) -> int:
    """Have a client with a kept session subscribe until it is refused; return the memory that the gateway has then."""
    client = await RawClient.open(node.mqtt_port, 5)
    await client.connect("subscriber", properties=mqtt.session_expiry(100_000))
    number, codes = 0, [0]
    while codes[-1] == 0:
        codes = await client.subscribe(*[text(number + place) for place in range(FILTERS_PER_PACKET)])
        number += FILTERS_PER_PACKET
    resident = resident_bytes(node)
    assert codes[-1] == QUOTA_EXCEEDED, "the limit is reached"
    await client.leave()
    return resident


@pytest.mark.parametrize("text", [with_a_long_filter, with_many_levels, short], ids=lambda text: text.__name__)
def test_the_limit_of_subscriptions_bounds_memory_and_disk(tmp_path: Path, text: Callable[[int], str]) -> None:
    limit = LIMIT if text is not short else LIMIT // 4
    with gateway(tmp_path, vpn__subscription_bytes_max=limit) as node:
        memory_before, disk_before = resident_bytes(node), disk_bytes(node)

        after = asyncio.run(subscribe(node, text))

        assert disk_bytes(node) - disk_before <= 1.5 * limit + DISK_SLACK
        assert after - memory_before <= 1.5 * limit + SLACK
        node.stop()
        node.start()
        assert resident_bytes(node) - memory_before <= 1.5 * limit + SLACK
