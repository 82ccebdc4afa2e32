"""uamqp over TLS: Azure's older client, in C, and still what many devices and services run."""

from uuid import uuid4

import pytest

from certificates import Certificates
from gateway_process import GatewayProcess, wait_until

uamqp = pytest.importorskip("uamqp", reason="uamqp has no wheel for this Python")

pytestmark = [pytest.mark.interop]

ANSWER_S = 20


@pytest.fixture
def queue(node: GatewayProcess) -> str:
    """A queue of this test alone."""
    name = f"q-{uuid4().hex[:12]}"
    node.create_queue(name)
    return name


def nobody(node: GatewayProcess, certificates: Certificates) -> object:
    """Return credentials of nobody, and where the gateway is."""
    return uamqp.authentication.SASLAnonymous("localhost", port=node.amqps_port, verify=str(certificates.authority))


def send(node: GatewayProcess, certificates: Certificates, queue: str, *messages: object) -> list[object]:
    """Send messages; return the state that each came to."""
    client = uamqp.SendClient(f"amqps://localhost/{queue}", auth=nobody(node, certificates))
    try:
        client.queue_message(*messages)
        states: list[object] = client.send_all_messages(close_on_done=False)
    finally:
        client.close()
    return states


def test_messages_go_both_ways_and_outcomes_have_their_effect(
    node: GatewayProcess, certificates: Certificates, queue: str
) -> None:
    """3.2, 3.4; its outcomes are lists with a size and no items: `c0 01 00`."""
    first = uamqp.Message(b"one", properties=uamqp.message.MessageProperties(message_id="m1", group_id="g"))
    states = send(node, certificates, queue, first, uamqp.Message(b"two"), uamqp.Message(b"three"))
    assert states == [uamqp.constants.MessageState.SendComplete] * 3
    client = uamqp.ReceiveClient(f"amqps://localhost/{queue}", auth=nobody(node, certificates), auto_complete=False)
    seen: list[tuple[bytes, int]] = []
    try:
        while len(seen) < 4:
            for message in client.receive_message_batch(max_batch_size=1, timeout=ANSWER_S * 1000):
                body = b"".join(message.get_data())
                failed = message.header.delivery_count if message.header and message.header.delivery_count else 0
                if body == b"one" and not failed:
                    assert message.properties.group_id == b"g"
                    message.modify(True, False)
                elif body == b"two":
                    message.reject()
                else:
                    message.accept()
                seen.append((body, failed))
        wait_until(lambda: _works(client, node, queue), within_s=ANSWER_S, what="the queue to be empty")
    finally:
        client.close()
    assert sorted(seen) == [(b"one", 0), (b"one", 1), (b"three", 0), (b"two", 0)]


def _works(client: object, node: GatewayProcess, queue: str) -> bool:
    client.do_work()  # type: ignore[attr-defined]  # outcomes are sent while the client is at work
    return node.held_count(queue) == 0
