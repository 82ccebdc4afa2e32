"""What RabbitMQ and ActiveMQ make of a bridge's messages, and the bridge of theirs; Proton is their client."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from paho.mqtt.packettypes import PacketTypes
from proton import Message
from proton.utils import BlockingConnection

from support.foreign.brokers import ForeignBroker, RabbitMq
from support.foreign.paho_client import PahoClient, properties
from support.load.bridged_load import bridge_to
from support.processes.gateway import GatewayProcess, wait_until

ANSWER_S = 30

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.fixture
def client(amqp_broker: ForeignBroker) -> Iterator[BlockingConnection]:
    """A client of the foreign broker."""
    user: dict[str, Any] = {"user": "guest", "password": "guest"} if isinstance(amqp_broker, RabbitMq) else {}
    url = f"amqp://127.0.0.1:{amqp_broker.amqp_port}"
    connection = BlockingConnection(url, timeout=ANSWER_S, allow_insecure_mechs=True, **user)
    yield connection
    connection.close()


def gateway(folder: Path, broker: ForeignBroker, rules: str) -> GatewayProcess:
    """Return a gateway with a bridge, not started."""
    file = folder / "sluicegate.yaml"
    url = f"amqp://127.0.0.1:{broker.amqp_port}"
    file.write_text(bridge_to(url, rules, name="here", credentials=broker.credentials(folder)))
    return GatewayProcess(folder / "node", config_file=file)


def test_messages_go_there_with_their_properties(
    amqp_broker: ForeignBroker, client: BlockingConnection, tmp_path: Path
) -> None:
    name = f"orders-{uuid4().hex[:8]}"
    rules = f"outgoing:\n- {{queue: q, remote_queue: {amqp_broker.new_queue(name)}}}"
    with gateway(tmp_path, amqp_broker, rules) as node:
        node.create_queue("q", subscriptions=["orders/>"])
        with PahoClient(f"p-{uuid4().hex[:12]}") as device:
            device.connect(node.mqtt_port)
            told = properties(
                PacketTypes.PUBLISH, MessageExpiryInterval=120, UserProperty=[("JMSXGroupID", "line-7"), ("unit", "K")]
            )
            device.publish("orders/7", b"hello", 1, properties=told)
        wait_until(lambda: not node.held_count("q"), within_s=ANSWER_S, what="the bridge")
        message: Any = client.create_receiver(amqp_broker.known_address(name), credit=1).receive(timeout=ANSWER_S)
    assert bytes(message.body) == b"hello"
    assert message.group_id == "line-7"
    assert 60 < message.ttl <= 120
    assert message.properties == {"unit": "K", "Sluicegate-Path": "here/default/across"}


def test_messages_come_here_with_their_properties(
    amqp_broker: ForeignBroker, client: BlockingConnection, tmp_path: Path
) -> None:
    """The group-id is the key: messages of one group are in one partition."""
    name = f"alarms-{uuid4().hex[:8]}"
    rules = f"incoming:\n- {{remote_queue: {amqp_broker.new_queue(name)}, queue: q}}"
    with gateway(tmp_path, amqp_broker, rules) as node:
        node.create_queue("q", access_type="non-exclusive", partition_count=8)
        wait_until(lambda: node.metric("sluicegate_bridge_up") == 1, within_s=ANSWER_S, what="the bridge")
        sender = client.create_sender(amqp_broker.known_address(name))
        for number in range(20):
            sender.send(Message(body=f"{number}", group_id="line-7", subject="s", properties={"n": number}, ttl=120))
        wait_until(lambda: node.held_count("q") == 20, within_s=ANSWER_S, what="20 messages")
        view = node.queue("q")
        partitions = view["partitions"]
        assert isinstance(partitions, list)
        assert sorted(each["ready_count"] for each in partitions) == [0] * 7 + [20]
        got = node.command("sub", "--queue", "q", "--count", "1", "--json")
        assert "line-7" in got.stdout, got


def test_a_refused_sign_in_says_so(amqp_broker: ForeignBroker, tmp_path: Path) -> None:
    if not isinstance(amqp_broker, RabbitMq):
        pytest.skip("it admits everybody")
    with gateway(tmp_path, amqp_broker, "outgoing:\n- {queue: q, remote_queue: /queue/q}") as node:
        (tmp_path / "rabbitmq-password").write_text("wrong\n")
        node.restart()
        wait_until(
            lambda: "the sign-in was refused" in node.command("show", "bridge").stdout, within_s=ANSWER_S, what="why"
        )
