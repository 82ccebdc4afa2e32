"""Azure's pyamqp over TLS: a client that reads performatives by the place of their fields (decision 0028)."""

from uuid import uuid4

import pytest
from azure.eventhub._pyamqp.error import AMQPException
from azure.eventhub._pyamqp.message import Header, Properties

from support.foreign.pyamqp_client import PyamqpReceiver, message, send
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


def becomes_empty(node: GatewayProcess, queue: str) -> None:
    wait_until(lambda: node.held_count(queue) == 0, within_s=ANSWER_S, what="the queue to be empty")


def test_messages_arrive_as_they_were_sent(node: GatewayProcess, certificates: Certificates, queue: str) -> None:
    """3.2: properties, annotations and application properties with their types; a body of many frames."""
    port, authority = node.amqps_port, certificates.authority
    rich = message(
        b"bytes",
        properties=Properties(message_id="m1", group_id="g1"),
        header=Header(durable=True, priority=7),
        message_annotations={b"x-opt-partition-key": "k"},
        application_properties={"n": 3, "s": "x"},
    )
    large = message(bytes(range(256)) * 1000)
    send(port, authority, queue, rich, large)
    with PyamqpReceiver(port, authority, queue) as receiver:
        first, second = receiver.next(), receiver.next()
    assert list(first.data) == [b"bytes"]
    assert (first.properties.message_id, first.properties.group_id) == (b"m1", b"g1")
    assert (first.header.durable, first.header.priority) == (True, 7)
    assert first.message_annotations == {b"x-opt-partition-key": b"k"}
    assert first.application_properties == {b"n": 3, b"s": b"x"}
    assert list(second.data) == [bytes(range(256)) * 1000]
    becomes_empty(node, queue)


def test_every_outcome_has_its_effect(node: GatewayProcess, certificates: Certificates, queue: str) -> None:
    """3.4: released comes again uncounted, modified counted, rejected never."""
    port, authority = node.amqps_port, certificates.authority
    send(port, authority, queue, message(b"m"))
    with PyamqpReceiver(port, authority, queue) as receiver:
        receiver.next("released")
        again = receiver.next("modified", delivery_failed=True)
        failed = receiver.next("rejected")
    assert not again.header.delivery_count
    assert failed.header.delivery_count == 1
    becomes_empty(node, queue)


def test_a_queue_that_is_not_there_is_an_error_of_the_link(node: GatewayProcess, certificates: Certificates) -> None:
    """2.6.3: an attach without terminus and a detach that says why."""
    with pytest.raises(AMQPException, match="nowhere"):
        send(node.amqps_port, certificates.authority, "nowhere", message(b"x"))


def test_a_browser_takes_nothing(node: GatewayProcess, certificates: Certificates, queue: str) -> None:
    """3.5.3: with the distribution mode copy, whatever the client says of what it was shown."""
    port, authority = node.amqps_port, certificates.authority
    send(port, authority, queue, message(b"a"), message(b"b"))
    for _ in range(2):
        with PyamqpReceiver(port, authority, queue, distribution_mode="copy") as looker:
            assert [list(looker.next().data) for _ in range(2)] == [[b"a"], [b"b"]]
    assert node.held_count(queue) == 2
