"""rhea, AMQP 1.0 for JavaScript: over TCP, TLS and WebSocket, with every outcome, and over a restart of the gateway."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from support.foreign.paho_client import PahoClient
from support.foreign.rhea_client import RheaClient
from support.network.certificates import Certificates
from support.processes.gateway import GatewayProcess, wait_until

pytestmark = [pytest.mark.interop]

ANSWER_S = 20


@pytest.fixture
def queue(node: GatewayProcess) -> str:
    """A queue of this test alone."""
    name = f"q-{uuid4().hex[:12]}"
    node.create_queue(name)
    return name


@pytest.fixture
def rhea(node: GatewayProcess, certificates: Certificates) -> Iterator[RheaClient]:
    """A client over TLS."""
    trust = certificates.authority.read_text()
    with RheaClient("rhea", host="localhost", port=node.amqps_port, ca=trust) as client:
        assert "opened" in client.first_word
        yield client


def becomes_empty(node: GatewayProcess, queue: str) -> None:
    wait_until(lambda: node.held_count(queue) == 0, within_s=ANSWER_S, what="the queue to be empty")


def publish(gateway: GatewayProcess, topic: str, payload: bytes) -> None:
    with PahoClient(f"p-{uuid4().hex[:12]}") as device:
        device.connect(gateway.mqtt_port)
        device.publish(topic, payload, 1)


def test_messages_of_every_kind_arrive_as_they_were_sent(node: GatewayProcess, rhea: RheaClient, queue: str) -> None:
    """3.2: rhea's encodings are its own: four byte sizes, uints for numbers, empty sections."""
    sent: list[dict[str, Any]] = [
        {"body": "text", "message_id": "m1", "group_id": "g1", "application_properties": {"n": 7, "s": "x"}},
        {"data": "00ff", "durable": True},
        {"body": {"a": [1, None, True]}},
        {"body": "annotated", "message_annotations": {"x-opt-mine": "kept"}},
    ]
    assert rhea.send(queue, *sent) == ["accepted"] * 4
    rhea.attach("r", queue)
    text, data, structure, annotated = rhea.receive("r", 4)
    assert (text["value"], text["id"], text["group_id"]) == ("text", "m1", "g1")
    assert text["properties"] == {"n": 7, "s": "x"}
    assert data["data"] == "00ff"
    assert structure["value"] == {"a": [1, None, True]}
    assert annotated["annotations"] == {"x-opt-mine": "kept"}
    becomes_empty(node, queue)


def test_every_outcome_has_its_effect(node: GatewayProcess, rhea: RheaClient, queue: str) -> None:
    """Cases 45 and 47, 3.4: released comes again uncounted, failed counted, the others do not come again."""
    rhea.send(queue, {"body": "m"})
    rhea.attach("r", queue)
    (first,) = rhea.receive("r", 1, "release")
    (second,) = rhea.receive("r", 1, "fail")
    (third,) = rhea.receive("r", 1, "accept")
    assert [each["delivery_count"] for each in (first, second, third)] == [0, 0, 1]
    assert [each["first_acquirer"] for each in (first, third)] == [True, False]
    rhea.send(queue, {"body": "x"}, {"body": "y"})
    assert [each["value"] for each in rhea.receive("r", 2, "reject", "not_here")] == ["x", "y"]
    becomes_empty(node, queue)


def test_a_large_message_arrives_whole(rhea: RheaClient, queue: str) -> None:
    """2.6.14: it goes both ways in many frames."""
    content = bytes(range(256)).hex() * 1000
    assert rhea.send(queue, {"data": content}) == ["accepted"]
    rhea.attach("r", queue)
    (received,) = rhea.receive("r", 1)
    assert received["data"] == content


def test_a_presettled_message_is_stored_and_one_that_is_refused_says_why(rhea: RheaClient, queue: str) -> None:
    """2.6.12; an anonymous sender's messages have outcomes of their own."""
    rhea.ask("send", address=queue, messages=[{"body": "settled"}], presettled=True)
    rhea.attach("r", queue)
    assert [each["value"] for each in rhea.receive("r", 1)] == ["settled"]
    outcomes = rhea.send(None, {"body": "x", "to": queue}, {"body": "x", "to": "nowhere"}, {"body": "x"})
    assert outcomes == ["accepted", "rejected amqp:not-found", "rejected amqp:precondition-failed"]
    assert rhea.ask("send", address="nowhere", messages=[{"body": "x"}]) == {"refused": "amqp:not-found"}
    assert rhea.attach("n", "nowhere") == {"refused": "amqp:not-found"}


def test_amqp_travels_over_websocket(node: GatewayProcess, queue: str) -> None:
    """Case 87: the WebSocket binding, subprotocol `amqp`; rhea sends each frame as a message of its own."""
    with RheaClient("over-ws", websocket=f"ws://127.0.0.1:{node.ports['amqp_websocket']}/amqp") as client:
        assert "opened" in client.first_word
        assert client.send(queue, {"body": "framed twice"}) == ["accepted"]
        client.attach("r", queue)
        assert [each["value"] for each in client.receive("r", 1)] == ["framed twice"]


def test_a_durable_subscription_goes_on_over_a_restart_of_the_gateway(
    tmp_path: Path, certificates: Certificates
) -> None:
    """Case 68: the client reconnects by itself, and has what came while it was away, and what comes now."""
    settings: dict[str, object] = {
        "listeners.amqp_tls.enabled": True,
        "listeners.amqp_tls.certificate": certificates.server,
        "listeners.amqp_tls.key": certificates.server_key,
    }
    trust = certificates.authority.read_text()
    with (
        GatewayProcess(tmp_path, settings) as gateway,
        RheaClient("lasting", host="localhost", port=gateway.amqps_port, ca=trust, reconnect=True) as client,
    ):
        source = {"address": "topic://news/*", "durable": 2, "expiry_policy": "never"}
        granted = client.ask("attach", name="daily", source=source, credit_window=10)
        assert granted == {"source": {"address": "topic://news/*", "durable": 1}}
        publish(gateway, "news/a", b"before")
        arrived = client.ask("receive", name="daily", count=1)
        assert [each["data"] for each in arrived["messages"]] == [b"before".hex()]

        becomes_empty(gateway, "#amqp/lasting/daily")  # else it would come again, rightly
        gateway.restart()
        publish(gateway, "news/a", b"after")
        arrived = client.ask("receive", name="daily", count=1)
        assert [each["data"] for each in arrived["messages"]] == [b"after".hex()]


def test_accepted_messages_survive_a_kill(tmp_path: Path) -> None:
    """Case 42: an outcome means that the message is on disk."""
    with GatewayProcess(tmp_path) as gateway:
        gateway.create_queue("kept")
        with RheaClient("before", port=gateway.amqp_port, reconnect=True) as client:
            outcomes = client.send("kept", *({"body": f"m{number}", "durable": True} for number in range(50)))
            gateway.kill9()
        assert outcomes == ["accepted"] * 50
        gateway.start()
        with RheaClient("after", port=gateway.amqp_port) as client:
            client.attach("r", "kept")
            assert [each["value"] for each in client.receive("r", 50)] == [f"m{number}" for number in range(50)]
