"""rhea's consumers beyond plain receiving: request and reply, drain, browsing, annotations on release."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from support.foreign.rhea_client import RheaClient
from support.processes.gateway import GatewayProcess

pytestmark = [pytest.mark.interop]


@pytest.fixture
def queue(node: GatewayProcess) -> str:
    """A queue of this test alone."""
    name = f"q-{uuid4().hex[:12]}"
    node.create_queue(name)
    return name


@pytest.fixture
def rhea(node: GatewayProcess) -> Iterator[RheaClient]:
    with RheaClient(f"rhea-{uuid4().hex[:12]}", port=node.amqp_port) as client:
        assert "opened" in client.first_word
        yield client


def test_an_answer_comes_back_to_a_dynamic_source(node: GatewayProcess, rhea: RheaClient, queue: str) -> None:
    """3.5.3: the pattern of rhea's `rpc` example: a receiver without address, its address as reply_to."""
    address = rhea.ask("attach", name="answers", source={"dynamic": True})["source"]["address"]
    rhea.send(queue, {"body": "question", "reply_to": address, "correlation_id": "7"})
    with RheaClient("serves", port=node.amqp_port) as server:
        server.attach("requests", queue)
        assert [each["value"] for each in server.receive("requests", 1)] == ["question"]
        assert server.send(None, {"body": "answer", "to": address, "correlation_id": "7"}) == ["accepted"]
        assert server.attach("spies", address) == {"refused": "amqp:resource-locked"}
    assert [each["value"] for each in rhea.receive("answers", 1)] == ["answer"]


def test_a_drained_receiver_hears_that_there_is_no_more(rhea: RheaClient, queue: str) -> None:
    """2.6.7."""
    rhea.send(queue, {"body": 1}, {"body": 2})
    rhea.attach("r", queue)
    rhea.receive("r", 1, credit=10)
    assert rhea.ask("drain", name="r") == {"drained": True, "held": 1}
    assert [each["value"] for each in rhea.receive("r", 1, credit=1)] == [2]


def test_a_browser_takes_nothing(node: GatewayProcess, rhea: RheaClient, queue: str) -> None:
    """3.5.3: distribution-mode copy."""
    rhea.send(queue, {"body": 1}, {"body": 2})
    rhea.attach("b", queue, distribution_mode="copy")
    seen = rhea.receive("b", 2)
    assert [(each["value"], each["settled"]) for each in seen] == [(1, True), (2, True)]
    assert node.held_count(queue) == 2


def test_annotations_of_modified_are_on_the_message_when_it_comes_again(rhea: RheaClient, queue: str) -> None:
    """3.4.5, case 48."""
    rhea.send(queue, {"body": "m", "message_annotations": {"x-opt-mine": "kept"}})
    rhea.attach("r", queue)
    rhea.receive("r", 1, "annotate")
    (again,) = rhea.receive("r", 1)
    assert again["annotations"] == {"x-opt-mine": "kept", "x-seen": "yes"}
    assert again["delivery_count"] == 1
