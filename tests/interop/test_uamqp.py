"""uamqp over TLS: Azure's older client, in C, which many devices still run."""

from uuid import uuid4

import pytest

from support.network.certificates import Certificates
from support.processes.gateway import GatewayProcess, wait_until

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


def named_receiver(*arguments: object, **options: object) -> object:
    """Return a receiver whose link has the same name each time: uamqp's own client makes up a new one."""
    return uamqp.receiver.MessageReceiver(*arguments, **{**options, "name": "subscription"})


def next_message(client: object) -> object:
    """Return the next message."""
    found = client.receive_message_batch(max_batch_size=1, timeout=ANSWER_S * 1000)  # type: ignore[attr-defined]  # no types
    assert found, "no message came"
    return found[0]


def body_of(message: object) -> bytes:
    return b"".join(message.get_data())  # type: ignore[attr-defined]  # no types


def test_released_messages_come_again_with_the_same_delivery_count(
    node: GatewayProcess, certificates: Certificates, queue: str
) -> None:
    """3.4.4 released."""
    send(node, certificates, queue, uamqp.Message(b"one"))
    client = uamqp.ReceiveClient(f"amqps://localhost/{queue}", auth=nobody(node, certificates), auto_complete=False)
    try:
        next_message(client).release()  # type: ignore[attr-defined]  # no types
        again = next_message(client)
        assert body_of(again) == b"one"
        assert not (again.header and again.header.delivery_count)  # type: ignore[attr-defined]  # no types
        again.accept()  # type: ignore[attr-defined]  # no types
        wait_until(lambda: _works(client, node, queue), within_s=ANSWER_S, what="the queue to be empty")
    finally:
        client.close()


def test_draining_gives_the_credit_back(node: GatewayProcess, certificates: Certificates, queue: str) -> None:
    """2.6.7: what comes after the drain waits until there is credit again."""
    send(node, certificates, queue, uamqp.Message(b"before"))
    client = uamqp.ReceiveClient(
        f"amqps://localhost/{queue}", auth=nobody(node, certificates), auto_complete=False, prefetch=5
    )

    def has_window(wanted: int) -> bool:
        client.do_work()
        flows = node.queue(queue)["flows"]
        assert isinstance(flows, list)
        return [each["window"] for each in flows] == [wanted]

    try:
        next_message(client).accept()  # type: ignore[attr-defined]  # no types
        client.message_handler.reset_link_credit(5, drain=True)
        wait_until(lambda: has_window(0), within_s=ANSWER_S, what="the credit to be given back")
        send(node, certificates, queue, uamqp.Message(b"after"))
        assert has_window(0)
        assert node.queue(queue)["ready_count"] == 1
        client.message_handler.reset_link_credit(50)  # counted from where it was: it passes over our delivery-count
        assert body_of(next_message(client)) == b"after"
    finally:
        client.close()


def test_browsing_takes_nothing(node: GatewayProcess, certificates: Certificates, queue: str) -> None:
    """3.5.3 distribution-mode copy."""
    send(node, certificates, queue, *[uamqp.Message(b"%d" % number) for number in range(3)])
    source = uamqp.address.Source(f"amqps://localhost/{queue}")
    source.distribution_mode = b"copy"
    for _ in range(2):
        client = uamqp.ReceiveClient(source, auth=nobody(node, certificates), auto_complete=False)
        try:
            assert [body_of(next_message(client)) for _ in range(3)] == [b"0", b"1", b"2"]
        finally:
            client.close()
    assert node.held_count(queue) == 3


def test_a_durable_subscription_outlives_the_gateway(
    node: GatewayProcess, certificates: Certificates, topic: str
) -> None:
    """3.5.3, test case 68: known by container and link, it collects what was published before and after a kill."""
    source = uamqp.address.Source(f"amqps://localhost/topic://{topic}")
    source.durable = 2
    source.expiry_policy = b"never"

    def subscribed() -> object:
        client = uamqp.ReceiveClient(
            source, auth=nobody(node, certificates), client_name="uamqp-subscriber", auto_complete=False, prefetch=1
        )
        client.receiver_type = named_receiver
        client.open()
        wait_until(client.client_ready, within_s=ANSWER_S, what="the subscription")
        return client

    client = subscribed()
    send(node, certificates, f"topic://{topic}", uamqp.Message(b"one"), uamqp.Message(b"two"))
    first = next_message(client)
    assert body_of(first) == b"one"
    node.kill9()
    client.close()  # type: ignore[attr-defined]  # no types
    node.start()
    send(node, certificates, f"topic://{topic}", uamqp.Message(b"three"))
    client = subscribed()
    try:
        assert [body_of(next_message(client)) for _ in range(3)] == [b"one", b"two", b"three"]
    finally:
        client.close()  # type: ignore[attr-defined]  # no types
