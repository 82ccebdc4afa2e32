"""AMQP 1.0 clients: Apache Qpid Proton. A new connection is one of a new container, as its programs do it."""

import threading
import time
from collections import deque
from typing import Final

from proton import Connection, Event, Message, Sender
from proton.handlers import MessagingHandler
from proton.reactor import Container

from rounds.clients.pace import HOUR_MS, PAUSE_S, WINDOW, Numbers, Pace, payload_of, read_payload
from support.processes.gateway import LOOPBACK

KIND: Final = "AMQP"
HEARTBEAT_S: Final = 5
AGAIN_S: Final = 0.2
CREDIT: Final = 20


class _Client(MessagingHandler):
    """A connection, until it is lost."""

    def __init__(self, pace: Pace, port: int, *, prefetch: int = 0) -> None:
        super().__init__(prefetch=prefetch, auto_accept=True)
        self._pace = pace
        self._url = f"amqp://{LOOPBACK}:{port}"
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begin(self) -> None:
        """Connect, and again whenever that is lost."""
        self._thread.start()

    def _run(self) -> None:
        while not self._pace.ended.is_set():
            Container(self).run()
            self.lost()
            time.sleep(AGAIN_S)

    def lost(self) -> None:
        """The connection is gone."""

    def on_start(self, event: Event) -> None:
        connection = event.container.connect(
            self._url, reconnect=False, heartbeat=HEARTBEAT_S, allowed_mechs="ANONYMOUS"
        )
        self.attach(event.container, connection)
        event.container.schedule(PAUSE_S, self)

    def attach(self, container: Container, connection: Connection) -> None:
        """Open the links."""

    def on_timer_task(self, event: Event) -> None:
        if self._pace.ended.is_set():
            event.container.stop()
            return
        self.step()
        event.container.schedule(PAUSE_S, self)

    def step(self) -> None:
        """Do what is due."""

    def on_transport_closed(self, event: Event) -> None:
        event.container.stop()

    def on_transport_error(self, event: Event) -> None:
        event.container.stop()

    def on_link_error(self, event: Event) -> None:
        event.container.stop()

    def on_connection_error(self, event: Event) -> None:
        event.container.stop()

    def on_session_error(self, event: Event) -> None:
        event.container.stop()


class AmqpPublisher(_Client):
    """Sends to a queue, and again what was not settled when the connection was lost."""

    def __init__(self, name: str, pace: Pace, port: int, *, queue: str) -> None:
        super().__init__(pace, port)
        self._name = name
        self._queue = queue
        self._numbers: Final = Numbers(name, pace.ledger)
        self._under_way: dict[str, tuple[str, int]] = {}  # by delivery tag, in the order of sending
        self._again: deque[tuple[str, int]] = deque()
        self._tag = 0
        self._sender: Sender | None = None
        self.begin()

    def attach(self, container: Container, connection: Connection) -> None:
        self._sender = container.create_sender(connection, self._queue, name=self._name)

    def lost(self) -> None:
        self._sender = None
        self._again.extendleft(reversed(self._under_way.values()))
        self._under_way.clear()

    def step(self) -> None:
        sender = self._sender
        if sender is None or len(self._under_way) >= WINDOW or sender.credit <= 0:
            return
        while self._again and sender.credit > 0 and len(self._under_way) < WINDOW:
            self._send(*self._again.popleft())
        if self._pace.publishing.is_set() and sender.credit > 0 and len(self._under_way) < WINDOW:
            self._send(*self._numbers.next())

    def _send(self, key: str, number: int) -> None:
        assert self._sender is not None
        self._tag += 1
        message = Message(body=payload_of(key, number), durable=True, group_id=key, ttl=HOUR_MS / 1000, inferred=True)
        self._under_way[str(self._tag)] = key, number
        self._sender.send(message, tag=str(self._tag))

    def _taken(self, event: Event) -> tuple[str, int] | None:
        assert event.delivery is not None
        return self._under_way.pop(event.delivery.tag, None)

    def on_accepted(self, event: Event) -> None:
        sent = self._taken(event)
        if sent is not None:
            self._pace.ledger.confirm(KIND, *sent)

    def on_rejected(self, event: Event) -> None:
        sent = self._taken(event)
        if sent is not None:
            self._pace.ledger.refuse(*sent)

    def on_released(self, event: Event) -> None:
        sent = self._taken(event)
        if sent is not None:
            self._again.append(sent)


class AmqpConsumer(_Client):
    """Receives from a queue, and accepts at once."""

    def __init__(self, name: str, pace: Pace, port: int, *, queue: str) -> None:
        super().__init__(pace, port, prefetch=CREDIT)
        self._name = name
        self._queue = queue
        self.begin()

    def attach(self, container: Container, connection: Connection) -> None:
        container.create_receiver(connection, self._queue, name=self._name)

    def on_message(self, event: Event) -> None:
        self._pace.ledger.receive(*read_payload(bytes(event.message.body)))
