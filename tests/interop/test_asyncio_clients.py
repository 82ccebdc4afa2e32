"""gmqtt (5.0) and amqtt's client (3.1.1): two independent codecs on asyncio."""

import asyncio
from typing import Any

import pytest
from amqtt.client import MQTTClient
from gmqtt import Client
from gmqtt.mqtt.constants import MQTTv50, MQTTv311

from support.processes.gateway import GatewayProcess

ANSWER_S = 30

pytestmark = [pytest.mark.interop]


class Gmqtt:
    """A gmqtt client whose messages go into a queue."""

    def __init__(self, client_id: str, **options: Any) -> None:
        self.messages: asyncio.Queue[tuple[str, bytes, int, dict[str, Any]]] = asyncio.Queue()
        self._granted: asyncio.Queue[tuple[int, ...]] = asyncio.Queue()
        self.client = Client(client_id, **options)
        self.client.on_message = self._on_message
        self.client.on_subscribe = lambda client, mid, qos, properties: self._granted.put_nowait(tuple(qos))

    async def subscribe(self, filter_text: str, qos: int) -> None:
        self.client.subscribe(filter_text, qos=qos)
        assert await asyncio.wait_for(self._granted.get(), ANSWER_S) == (qos,)

    async def next(self) -> tuple[str, bytes, int, dict[str, Any]]:
        return await asyncio.wait_for(self.messages.get(), ANSWER_S)

    def _on_message(self, client: Any, topic: str, payload: bytes, qos: int, properties: dict[str, Any]) -> int:
        self.messages.put_nowait((topic, payload, qos, properties))
        return 0


@pytest.mark.parametrize("version", [MQTTv311, MQTTv50], ids=["3.1.1", "5.0"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_gmqtt_receives_what_it_published(node: GatewayProcess, topic: str, version: int, qos: int) -> None:
    async def scenario() -> None:
        peer = Gmqtt(f"gmqtt-{version}-{qos}")
        await peer.client.connect("127.0.0.1", node.mqtt_port, version=version)
        await peer.subscribe(f"{topic}/#", 2)
        for number in range(10):
            peer.client.publish(f"{topic}/a", f"{number}", qos=qos)
        for number in range(10):
            received, payload, its_qos, _ = await peer.next()
            assert (received, payload, its_qos) == (f"{topic}/a", b"%d" % number, qos)
        await peer.client.disconnect()

    asyncio.run(scenario())


def test_gmqtt_properties_make_the_round_trip(node: GatewayProcess, topic: str) -> None:
    async def scenario() -> None:
        peer = Gmqtt("gmqtt-properties")
        await peer.client.connect("127.0.0.1", node.mqtt_port, version=MQTTv50)
        await peer.subscribe(topic, 1)
        peer.client.publish(
            topic, "x", qos=1, content_type="text/plain", user_property=[("a", "1"), ("a", "2")], response_topic="r/t"
        )
        _, _, _, properties = await peer.next()
        assert properties["content_type"] == ["text/plain"]
        assert properties["response_topic"] == ["r/t"]
        assert properties["user_property"] == [("a", "1"), ("a", "2")]
        await peer.client.disconnect()

    asyncio.run(scenario())


def test_gmqtt_shares_a_subscription(node: GatewayProcess, topic: str) -> None:
    async def scenario() -> None:
        members = [Gmqtt("gmqtt-m1"), Gmqtt("gmqtt-m2")]
        for member in members:
            await member.client.connect("127.0.0.1", node.mqtt_port, version=MQTTv50)
            await member.subscribe(f"$share/group/{topic}", 1)
        for number in range(20):
            members[0].client.publish(topic, str(number), qos=1)
        async with asyncio.timeout(ANSWER_S):
            while sum(member.messages.qsize() for member in members) < 20:
                await asyncio.sleep(0.01)
        received = [member.messages.get_nowait()[1] for member in members for _ in range(member.messages.qsize())]
        assert sorted(int(payload) for payload in received) == list(range(20))
        for member in members:
            await member.client.disconnect()

    asyncio.run(scenario())


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_amqtt_receives_what_it_published(node: GatewayProcess, topic: str, qos: int) -> None:
    async def scenario() -> None:
        peer = MQTTClient(client_id=f"amqtt-{qos}", config={"auto_reconnect": False})
        await peer.connect(f"mqtt://127.0.0.1:{node.mqtt_port}/")
        assert await peer.subscribe([(f"{topic}/#", qos)]) == [qos]
        for number in range(10):
            await peer.publish(f"{topic}/a", b"%d" % number, qos=qos)
        for number in range(10):
            message = await peer.deliver_message(timeout_duration=ANSWER_S)
            assert message is not None
            assert (message.topic, bytes(message.data), message.qos) == (f"{topic}/a", b"%d" % number, qos)
        await peer.disconnect()

    asyncio.run(scenario())


def test_amqtt_consumes_a_queue(node: GatewayProcess, topic: str) -> None:
    node.create_queue("amqtt", subscriptions=[f"{topic}/>"])

    async def scenario() -> None:
        peer = MQTTClient(client_id="amqtt-queue", config={"auto_reconnect": False})
        await peer.connect(f"mqtt://127.0.0.1:{node.mqtt_port}/")
        for number in range(5):
            await peer.publish(f"{topic}/a", b"%d" % number, qos=1)
        assert await peer.subscribe([("$queue/amqtt", 1)]) == [1]
        for number in range(5):
            message = await peer.deliver_message(timeout_duration=ANSWER_S)
            assert message is not None
            assert bytes(message.data) == b"%d" % number
        await peer.disconnect()

    asyncio.run(scenario())
