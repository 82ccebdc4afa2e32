"""Proton's reactor for Python, over TLS: links that live as long as their program, and reconnect by themselves."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from uuid import uuid4

import pytest
from proton import Delivery, Message, SSLDomain
from proton.handlers import MessagingHandler
from proton.reactor import Container, Copy, DurableSubscription

from support.foreign.paho_client import PahoClient
from support.network.certificates import Certificates
from support.processes.gateway import GatewayProcess, wait_until

pytestmark = [pytest.mark.interop]

ANSWER_S = 30


class Reactor(MessagingHandler):
    """One program: a connection, and what is done on it when it hears something. It runs in a thread of its own."""

    def __init__(self, port: int, authority: Path) -> None:
        super().__init__(prefetch=0, auto_accept=False)
        self.heard: SimpleQueue[Any] = SimpleQueue()
        self._url = f"amqps://localhost:{port}"
        self._authority = authority
        self._connection: Any = None

    def on_start(self, event: Any) -> None:
        trust = SSLDomain(SSLDomain.MODE_CLIENT)
        trust.set_trusted_ca_db(str(self._authority))
        trust.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
        self._connection = event.container.connect(self._url, ssl_domain=trust, allowed_mechs="ANONYMOUS")
        self.begin(event.container, self._connection)

    def begin(self, container: Any, connection: Any) -> None:
        """Open the program's links."""

    def end(self) -> None:
        """Close; then the thread ends."""
        self._connection.close()

    def next(self) -> Any:
        """Return what the program has heard next."""
        try:
            return self.heard.get(timeout=ANSWER_S)
        except Empty:
            raise AssertionError(f"nothing was heard within {ANSWER_S} s") from None


@contextmanager
def running(reactor: Reactor, name: str) -> Iterator[Reactor]:
    """Run a program, and wait for its end."""
    container = Container(reactor)
    container.container_id = name
    thread = threading.Thread(target=container.run, daemon=True)
    thread.start()
    yield reactor
    thread.join(ANSWER_S)
    assert not thread.is_alive(), "the program has not ended"


class EveryOutcome(Reactor):
    """Sends four messages, and gives each an outcome of its own; what comes again is accepted. Then it drains."""

    def __init__(self, port: int, authority: Path, queue: str) -> None:
        super().__init__(port, authority)
        self._queue = queue
        self._unsent = ["accept", "release", "modify", "reject"]
        self._sender: Any = None
        self._receiver: Any = None
        self._accepted_count = 0
        self._seen: list[tuple[str, int]] = []

    def begin(self, container: Any, connection: Any) -> None:
        self._sender = container.create_sender(connection, self._queue)

    def on_sendable(self, event: Any) -> None:
        while self._unsent and self._sender.credit:
            self._sender.send(Message(body=self._unsent.pop(0), durable=True))

    def on_accepted(self, event: Any) -> None:
        self._accepted_count += 1
        if self._accepted_count == 4:
            self._receiver = event.container.create_receiver(event.connection, self._queue)
            self._receiver.flow(6)

    def on_message(self, event: Any) -> None:
        wanted = str(event.message.body)
        again = any(body == wanted for body, _ in self._seen)
        self._seen.append((wanted, event.message.delivery_count))
        if wanted == "accept" or again:
            self.accept(event.delivery)
        elif wanted == "reject":
            self.reject(event.delivery)
        elif wanted == "modify":
            event.delivery.local.failed = True
            self.settle(event.delivery, Delivery.MODIFIED)
        else:
            self.release(event.delivery, delivered=False)
        if len(self._seen) == 6:
            self._receiver.drain(10)

    def on_link_flow(self, event: Any) -> None:
        if event.link == self._receiver and len(self._seen) == 6 and self._receiver.credit == 0:
            self.heard.put(sorted(self._seen))
            self.end()


def test_every_outcome_has_its_effect_and_a_drain_ends(node: GatewayProcess, certificates: Certificates) -> None:
    """3.4, 2.6.7: released comes again uncounted, modified counted, rejected never; then there is no more."""
    queue = f"q-{uuid4().hex[:12]}"
    node.create_queue(queue)
    with running(EveryOutcome(node.amqps_port, certificates.authority, queue), "outcomes") as reactor:
        seen = reactor.next()
    assert seen == [("accept", 0), ("modify", 0), ("modify", 1), ("reject", 0), ("release", 0), ("release", 0)]
    wait_until(lambda: node.held_count(queue) == 0, within_s=ANSWER_S, what="the queue is empty")


class Looker(Reactor):
    """Browses a queue."""

    def __init__(self, port: int, authority: Path, queue: str) -> None:
        super().__init__(port, authority)
        self._queue = queue
        self._sender: Any = None
        self._sent_count = 0
        self._seen: list[str] = []

    def begin(self, container: Any, connection: Any) -> None:
        self._sender = container.create_sender(connection, self._queue)

    def on_sendable(self, event: Any) -> None:
        while self._sent_count < 3 and self._sender.credit:
            self._sender.send(Message(body=f"m{self._sent_count}", durable=True))
            self._sent_count += 1

    def on_settled(self, event: Any) -> None:
        self._sent_count += 1
        if self._sent_count == 6:  # three sent, three settled
            event.container.create_receiver(self._connection, self._queue, options=Copy()).flow(3)

    def on_message(self, event: Any) -> None:
        self._seen.append(str(event.message.body))
        if len(self._seen) == 3:
            self.heard.put(self._seen)
            self.end()


def test_a_browser_sees_what_is_there_and_takes_nothing(node: GatewayProcess, certificates: Certificates) -> None:
    """3.5.3, distribution-mode copy."""
    queue = f"q-{uuid4().hex[:12]}"
    node.create_queue(queue)
    with running(Looker(node.amqps_port, certificates.authority, queue), "looker") as reactor:
        assert reactor.next() == ["m0", "m1", "m2"]
    assert node.held_count(queue) == 3


class Subscriber(Reactor):
    """Has a durable subscription."""

    def begin(self, container: Any, connection: Any) -> None:
        container.create_receiver(connection, "topic://news/*", name="daily", options=DurableSubscription()).flow(10)

    def on_link_opened(self, event: Any) -> None:
        self.heard.put("opened")

    def on_message(self, event: Any) -> None:
        body = event.message.body
        self.accept(event.delivery)
        self.heard.put(bytes(body))
        if bytes(body) == b"last":
            self.end()


def publish(gateway: GatewayProcess, payload: bytes) -> None:
    with PahoClient(f"p-{uuid4().hex[:12]}") as press:
        press.connect(gateway.mqtt_port)
        press.publish("news/a", payload, 1)


def test_a_durable_subscription_goes_on_over_a_restart_of_the_gateway(
    tmp_path: Path, certificates: Certificates
) -> None:
    """Case 68: the program reconnects by itself, and has what came while it was away, and what comes now."""
    settings: dict[str, object] = {
        "listeners.amqp_tls.enabled": True,
        "listeners.amqp_tls.certificate": certificates.server,
        "listeners.amqp_tls.key": certificates.server_key,
    }
    with (
        GatewayProcess(tmp_path, settings) as gateway,
        running(Subscriber(gateway.amqps_port, certificates.authority), "lasting") as reactor,
    ):
        assert reactor.next() == "opened"
        publish(gateway, b"before")
        assert reactor.next() == b"before"
        gateway.restart()
        publish(gateway, b"after")
        heard = reactor.next()
        while heard in (b"before", "opened"):  # its acceptance may have come too late: then it comes again, rightly
            heard = reactor.next()
        assert heard == b"after"
        publish(gateway, b"last")
        assert reactor.next() == b"last"
