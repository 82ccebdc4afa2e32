"""Apache Qpid Proton for Python as publisher and consumer."""

import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest
from paho.mqtt.packettypes import PacketTypes
from proton import Message, SSLDomain, byte, symbol, ulong
from proton.reactor import AtMostOnce, Copy
from proton.utils import BlockingConnection, LinkDetached, SendException, SyncRequestResponse

from support.foreign.paho_client import MQTT_5, PahoClient, properties
from support.network.certificates import Certificates
from support.processes.gateway import GatewayProcess, wait_until

pytestmark = [pytest.mark.interop]

ANSWER_S = 30


def connect(node: GatewayProcess) -> BlockingConnection:
    return BlockingConnection(f"amqp://127.0.0.1:{node.amqp_port}", timeout=ANSWER_S, allowed_mechs="ANONYMOUS")


def body_of(message: Message) -> object:
    """Return a message's body; proton shows binary as a view."""
    body: object = message.body
    return bytes(body) if isinstance(body, memoryview) else body


def becomes_empty(node: GatewayProcess, connection: BlockingConnection, queue: str) -> None:
    """Wait until a queue holds nothing; a blocking client sends its outcomes while it waits for something."""

    def is_empty() -> bool:
        connection.container.do_work(timeout=0.05)
        return node.held_count(queue) == 0

    wait_until(is_empty, within_s=ANSWER_S, what="the queue is empty")


@pytest.fixture
def queue(node: GatewayProcess) -> Iterator[str]:
    """A queue of this test alone."""
    name = f"q-{uuid4().hex[:12]}"
    node.create_queue(name, subscriptions=[f"{name}/>"])
    yield name
    assert node.command("queue", "delete", name, "--yes").returncode == 0


@pytest.fixture
def connection(node: GatewayProcess) -> Iterator[BlockingConnection]:
    opened = connect(node)
    yield opened
    opened.close()


def test_messages_arrive_as_they_were_sent(connection: BlockingConnection, queue: str) -> None:
    """3.2: the bare message is relayed as it is, with the types of everything in it."""
    sent = [
        Message(body="text", id="m1", group_id="g1", correlation_id=ulong(7), properties={"n": 1, "flag": True}),
        Message(body=b"bytes", content_type=symbol("application/octet-stream"), reply_to="answers", subject="s"),
        Message(body={"a": [1, 2, {"b": None}]}, priority=7, durable=True),
        Message(body=[1, "two", 3.0], annotations={symbol("x-opt-mine"): "kept"}),
        Message(),
    ]
    sender = connection.create_sender(queue)
    for message in sent:
        sender.send(message)
    receiver = connection.create_receiver(queue, credit=10)
    for message in sent:
        received = receiver.receive(timeout=ANSWER_S)
        receiver.accept()
        assert (body_of(received), received.id, received.group_id) == (message.body, message.id, message.group_id)
        assert (received.properties, received.correlation_id) == (message.properties, message.correlation_id)
        assert (received.reply_to, received.subject) == (message.reply_to, message.subject)
        assert (received.content_type, received.priority) == (message.content_type, message.priority)
        assert received.annotations == message.annotations
        assert received.first_acquirer
        assert received.delivery_count == 0


def test_a_message_of_many_frames_arrives_whole(connection: BlockingConnection, queue: str) -> None:
    """Case 54."""
    body = bytes(range(256)) * 20_000
    connection.create_sender(queue).send(Message(body=body))
    receiver = connection.create_receiver(queue, credit=1)
    assert body_of(receiver.receive(timeout=ANSWER_S)) == body
    receiver.accept()


def test_accepted_messages_are_removed_and_released_ones_are_delivered_again(
    node: GatewayProcess, connection: BlockingConnection, queue: str
) -> None:
    """Case 45, 3.4: accepted removes; released gives back untouched; modified with delivery-failed counts."""
    sender = connection.create_sender(queue)
    sender.send(Message(body="m"))
    receiver = connection.create_receiver(queue, credit=10)
    assert receiver.receive(timeout=ANSWER_S).delivery_count == 0
    receiver.release(delivered=False)
    again = receiver.receive(timeout=ANSWER_S)
    assert again.delivery_count == 0
    assert receiver.fetcher is not None
    receiver.fetcher.unsettled[0].local.failed = True
    receiver.release(delivered=True)
    failed = receiver.receive(timeout=ANSWER_S)
    assert failed.delivery_count == 1
    assert not failed.first_acquirer
    receiver.accept()
    becomes_empty(node, connection, queue)


def test_a_rejected_message_does_not_come_again(
    node: GatewayProcess, connection: BlockingConnection, queue: str
) -> None:
    connection.create_sender(queue).send(Message(body="m"))
    receiver = connection.create_receiver(queue, credit=10)
    receiver.receive(timeout=ANSWER_S)
    receiver.reject()
    becomes_empty(node, connection, queue)


def test_messages_of_a_lost_consumer_go_to_the_next(node: GatewayProcess, queue: str) -> None:
    """Case 53."""
    first = connect(node)
    first.create_sender(queue).send(Message(body="m"))
    first.create_receiver(queue, credit=10).receive(timeout=ANSWER_S)
    first.close()
    second = connect(node)
    received = second.create_receiver(queue, credit=10).receive(timeout=ANSWER_S)
    assert received.delivery_count == 1
    second.close()


def test_presettled_links_work_in_both_directions(
    node: GatewayProcess, connection: BlockingConnection, queue: str
) -> None:
    """Case 44."""
    sender = connection.create_sender(queue, options=AtMostOnce())
    sender.send(Message(body="m"))
    receiver = connection.create_receiver(queue, credit=10, options=AtMostOnce())
    assert receiver.receive(timeout=ANSWER_S).body == "m"
    becomes_empty(node, connection, queue)


def test_a_queue_that_is_not_there_is_named(connection: BlockingConnection) -> None:
    """Case 23."""
    for attach in (connection.create_sender, connection.create_receiver):
        with pytest.raises(LinkDetached, match=r"amqp:not-found.*'nowhere'"):
            attach("nowhere")


def test_an_anonymous_sender_says_with_each_message_where_it_goes(connection: BlockingConnection, queue: str) -> None:
    """Case 62. A target without address: properties.to is the address, and a wrong one costs that message only."""
    sender = connection.create_sender(None)
    sender.send(Message(body="direct", address=queue))
    sender.send(Message(body="by topic", address=f"topic://{queue}/eu"))
    sender.send(Message(body="by JMS", address=f"{queue}/eu", annotations={symbol("x-opt-jms-dest"): byte(1)}))
    for message in (Message(body="x", address="nowhere"), Message(body="x")):
        with pytest.raises(SendException):
            sender.send(message)
    receiver = connection.create_receiver(queue, credit=10)
    assert [receiver.receive(timeout=ANSWER_S).body for _ in range(3)] == ["direct", "by topic", "by JMS"]


def test_topics_reach_amqp_from_mqtt_and_mqtt_from_amqp(node: GatewayProcess, connection: BlockingConnection) -> None:
    name = f"t-{uuid4().hex[:12]}"
    receiver = connection.create_receiver(f"topic://{name}/*", credit=10)
    sender = connection.create_sender(f"topic://{name}/back")
    with PahoClient(f"c-{name}"[:23], version=MQTT_5) as device:
        device.connect(node.mqtt_port)
        device.publish(
            f"{name}/a",
            b"from a device",
            1,
            properties=properties(PacketTypes.PUBLISH, UserProperty=[("JMSXGroupID", "k7")]),
        )
        message = receiver.receive(timeout=ANSWER_S)
        receiver.accept()
        assert body_of(message) == b"from a device"
        assert (message.address, message.group_id) == (f"{name}/a", "k7")
        device.subscribe(f"{name}/back", 1)
        sender.send(Message(body="to a device", group_id="k8", properties={"n": 5}))
        arrived = device.next()
        assert arrived.payload == b"to a device"
        given = getattr(arrived.properties, "UserProperty", [])
        assert ("JMSXGroupID", "k8") in given
        assert ("n", "5") in given


def test_tls_and_a_user_name(node: GatewayProcess, certificates: Certificates, queue: str) -> None:
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(certificates.authority))
    domain.set_peer_authentication(SSLDomain.VERIFY_PEER)
    secured = BlockingConnection(
        f"amqps://localhost:{node.amqps_port}", timeout=ANSWER_S, ssl_domain=domain, allowed_mechs="ANONYMOUS"
    )
    secured.create_sender(queue).send(Message(body="over TLS"))
    assert secured.create_receiver(queue, credit=1).receive(timeout=ANSWER_S).body == "over TLS"
    secured.close()


def test_a_deleted_queue_ends_its_links(node: GatewayProcess, connection: BlockingConnection) -> None:
    name = f"q-{uuid4().hex[:12]}"
    node.create_queue(name)
    receiver = connection.create_receiver(name, credit=1)
    assert node.command("queue", "delete", name, "--yes").returncode == 0
    with pytest.raises(LinkDetached, match="amqp:resource-deleted"):
        receiver.receive(timeout=ANSWER_S)


def test_an_answer_comes_back_to_the_requesters_own_queue(
    node: GatewayProcess, connection: BlockingConnection, queue: str
) -> None:
    """3.5.3: the pattern of proton's example `sync_client`: a receiver on a dynamic source, its address as reply-to."""

    def answer_one() -> None:
        served = connect(node)
        request = served.create_receiver(queue, credit=1).receive(timeout=ANSWER_S)
        answer = Message(
            address=request.reply_to, body=str(request.body).upper(), correlation_id=request.correlation_id
        )
        served.create_sender(None).send(answer)
        served.close()

    with ThreadPoolExecutor(1) as pool:
        served = pool.submit(answer_one)
        client = SyncRequestResponse(connection, queue)
        assert client.call(Message(body="twas brillig")).body == "TWAS BRILLIG"
        served.result(ANSWER_S)


def test_a_browser_sees_what_a_consumer_then_gets(connection: BlockingConnection, queue: str) -> None:
    """3.5.3: distribution-mode copy."""
    sender = connection.create_sender(queue)
    for number in range(3):
        sender.send(Message(body=number))
    for options in (Copy(), Copy(), None):
        receiver = connection.create_receiver(queue, credit=10, name=f"l-{uuid4().hex}", options=options)
        assert [receiver.receive(timeout=ANSWER_S).body for _ in range(3)] == [0, 1, 2]
        receiver.close()  # type: ignore[no-untyped-call]  # proton's


def test_a_client_certificate_is_a_name(tmp_path: Path, certificates: Certificates) -> None:
    """Case 9: SASL EXTERNAL; the certificate's common name may consume from a queue of its own, and others may not."""
    settings: dict[str, object] = {
        "listeners.amqp_tls.enabled": True,
        "listeners.amqp_tls.certificate": certificates.server,
        "listeners.amqp_tls.key": certificates.server_key,
        "listeners.amqp_tls.client_ca": certificates.authority,
        "authentication.allow_anonymous": False,
    }
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(certificates.authority))
    domain.set_peer_authentication(SSLDomain.VERIFY_PEER)
    domain.set_credentials(str(certificates.client), str(certificates.client_key), None)
    with GatewayProcess(tmp_path, settings) as gateway:
        gateway.create_queue("mine", owner="device-7", permission="no-access")
        gateway.create_queue("theirs", owner="device-8", permission="no-access")
        named = BlockingConnection(
            f"amqps://localhost:{gateway.ports['amqp_tls']}",
            timeout=ANSWER_S,
            ssl_domain=domain,
            allowed_mechs="EXTERNAL",
        )
        named.create_sender("mine").send(Message(body="for device-7"))
        assert named.create_receiver("mine", credit=1).receive(timeout=ANSWER_S).body == "for device-7"
        with pytest.raises(LinkDetached, match="amqp:unauthorized-access"):
            named.create_receiver("theirs", credit=1).receive(timeout=ANSWER_S)
        named.close()


@pytest.mark.parametrize("page", ["README.md", "docs/connect/amqp.md"])
def test_the_example_of_a_page_consumes_what_it_has_published(node: GatewayProcess, queue: str, page: str) -> None:
    """As a program of its own: what it accepts the gateway hears of before it ends."""
    text = (Path(__file__).parents[2] / page).read_text()
    [program] = re.findall(r"^```python(?: title=\S+)?\n(from proton .*?)^```$", text, re.DOTALL | re.MULTILINE)
    program = program.replace("127.0.0.1:5672", f"127.0.0.1:{node.amqp_port}").replace('"orders"', repr(queue))
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=2 * ANSWER_S)
    assert (done.stdout, done.stderr) == ("hello\n", "")
    wait_until(lambda: node.held_count(queue) == 0, within_s=ANSWER_S, what="the queue is empty")
