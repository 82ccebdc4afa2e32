"""Every field of a message over every pair of protocols, as the cross-protocol table says.

What both sides have a way to say arrives; what one of them has not is left out, and nothing is made up.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from paho.mqtt.packettypes import PacketTypes
from proton.utils import BlockingConnection

from support.foreign.conformance_messages import ANSWER_S, RECEIVERS, SENDERS, Hearer, Speaker, Spoken
from support.foreign.paho_client import PahoClient, properties
from support.processes.gateway import GatewayProcess

pytestmark = [pytest.mark.interop]

EXPIRY_TOLERANCE_S = 60  # what a message may have waited, on a busy machine
PLAIN = Spoken(body=b"\x00\xff")
TEXT = Spoken(body="text é", content_type="text/plain")
RICH = Spoken(
    body=b"rich",
    priority=7,
    ttl_s=3600,
    message_id="m-1",
    correlation="c-1",
    reply_to="answers/here",
    content_type="application/x-thing",
    content_encoding="gzip",
    subject="a subject",
    created_ms=1_600_000_000_000,
    key="customer-7",
    group_sequence=3,
    annotations={"x-opt-mine": "kept"},
    properties={"plain": "text"},
)
TYPED = Spoken(body=b"typed", properties={"n": 7, "flag": True, "half": 1.5, "text": "x"})
SAID = {"plain": PLAIN, "text": TEXT, "rich": RICH, "typed": TYPED}


@pytest.fixture(scope="module")
def senders(node: GatewayProcess) -> Iterator[dict[str, Speaker]]:
    """A publisher of each protocol."""
    made: dict[str, Speaker] = {adapter.name: adapter(node) for adapter in SENDERS}
    yield made
    for client in made.values():
        client.close()


@pytest.fixture(scope="module")
def receivers(node: GatewayProcess) -> Iterator[dict[str, Hearer]]:
    """A consumer of each protocol that has some."""
    made: dict[str, Hearer] = {adapter.name: adapter(node, role="hearer") for adapter in RECEIVERS}
    yield made
    for client in made.values():
        client.close()


@pytest.fixture
def queue(node: GatewayProcess) -> str:
    """A queue of this test alone, which collects what is published below its own name."""
    name = f"m-{uuid4().hex[:12]}"
    node.create_queue(name, subscriptions=[f"{name}/>"])
    return name


def expected(said: Spoken, sender: Speaker, receiver: Speaker) -> Spoken:
    """Return what the receiver has to see of a message by the cross-protocol table."""
    seen = said.only(sender.can_say).only(receiver.can_say)
    if isinstance(seen.body, str) and "content_type" not in sender.can_say & receiver.can_say:
        seen = replace(seen, body=seen.body.encode())
    if not (sender.keeps_types and receiver.keeps_types):
        texts = {name: str(value).lower() if value is True else str(value) for name, value in said.properties.items()}
        seen = replace(seen, properties=texts if seen.properties else {})
    return seen


def connect(node: GatewayProcess) -> BlockingConnection:
    return BlockingConnection(f"amqp://127.0.0.1:{node.amqp_port}", timeout=ANSWER_S, allowed_mechs="ANONYMOUS")


PAIRS = [(sender.name, receiver.name) for sender in SENDERS for receiver in RECEIVERS]


@pytest.mark.parametrize("kind", SAID)
@pytest.mark.parametrize(("sender", "receiver"), PAIRS)
def test_properties_that_both_protocols_have_arrive(
    senders: dict[str, Speaker], receivers: dict[str, Hearer], queue: str, sender: str, receiver: str, kind: str
) -> None:
    """Reference 22; cases 82 and 85."""
    said = SAID[kind]
    if sender == "mqtt-5.0":  # has texts only
        said = replace(said, properties={name: str(value).lower() for name, value in said.properties.items()})
    senders[sender].send(f"{queue}/here", said)
    seen = receivers[receiver].receive(queue)
    wanted = expected(said, senders[sender], receivers[receiver])
    assert wanted.ttl_s - EXPIRY_TOLERANCE_S <= seen.ttl_s <= wanted.ttl_s
    assert replace(seen, ttl_s=0) == replace(wanted, ttl_s=0)


@pytest.mark.parametrize("receiver", [adapter.name for adapter in RECEIVERS])
def test_a_structure_is_json_to_clients_that_do_not_know_it(
    senders: dict[str, Speaker], receivers: dict[str, Hearer], queue: str, receiver: str
) -> None:
    """Reference 22, body map and list: JSON, and said to be."""
    senders["amqp"].send(f"{queue}/here", Spoken(body={"a": [1, "two", None]}))
    seen = receivers[receiver].receive(queue)
    if receiver == "amqp":
        assert seen.body == {"a": [1, "two", None]}
        return
    body = seen.body.decode() if isinstance(seen.body, bytes) else seen.body
    assert body == '{"a":[1,"two",null]}'
    assert seen.content_type == ("" if receiver == "mqtt-3.1.1" else "application/json")


def test_of_a_name_given_twice_amqp_holds_the_first(
    node: GatewayProcess, receivers: dict[str, Hearer], queue: str
) -> None:
    """Case 82; MQTT's user properties may repeat a name."""
    with PahoClient(f"twice-{queue}"[:23]) as device:
        device.connect(node.mqtt_port)
        twice = properties(PacketTypes.PUBLISH, UserProperty=[("colour", "red"), ("colour", "blue")])
        device.publish(f"{queue}/here", b"x", 1, properties=twice)
    assert receivers["amqp"].receive(queue).properties == {"colour": "red"}


@pytest.mark.parametrize("sender", [adapter.name for adapter in SENDERS])
def test_a_dead_message_says_why_to_consumers_of_amqp(
    node: GatewayProcess, senders: dict[str, Speaker], receivers: dict[str, Hearer], sender: str
) -> None:
    """Cases 46 and 49: reason, queue and count are annotations; what the publisher said is as it was."""
    name = f"d-{uuid4().hex[:12]}"
    node.create_queue(f"{name}-dead")
    node.create_queue(name, subscriptions=[f"{name}/>"], dead_msg_queue=f"{name}-dead")
    senders[sender].send(f"{name}/here", replace(PLAIN, annotations={"x-opt-mine": "kept"}))
    with closing(connect(node)) as connection:
        receiver: Any = connection.create_receiver(name, credit=1)
        receiver.receive(timeout=ANSWER_S)
        receiver.reject()
        receiver.close()
    seen = receivers["amqp"].receive(f"{name}-dead")
    assert seen.body == PLAIN.body
    assert seen.annotations["x-opt-sluicegate-dead-reason"] == "rejected"
    assert seen.annotations["x-opt-sluicegate-dead-queue"] == name
    assert seen.annotations.get("x-opt-mine") == (None if sender == "mqtt-3.1.1" else "kept")
