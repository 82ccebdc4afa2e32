"""An AMQP consumer among the clients of `mqtt_clients`: Proton on a bare socket, with each step visible to a test."""

import socket
from collections import deque
from collections.abc import Callable

from proton import Connection, Delivery, Message, Transport

from support.load.mqtt_clients import ANSWER_S, Received, WireClient


class AmqpWireConsumer(WireClient):
    """Consumes a queue of keyed messages, and settles late: up to `hold_count` stay unsettled."""

    def __init__(
        self,
        container_id: str,
        *,
        queue: str,
        record: Callable[[Received], None],
        hold_count: int = 0,
        credit: int = 20,
        keys_cross: bool = True,
    ) -> None:
        super().__init__(container_id)
        self.hold_count = hold_count
        self.received_count = 0
        self.unsettled: deque[tuple[Delivery, Received]] = deque()
        self._queue = queue
        self._record = record
        self._credit = credit
        self._keys_cross = keys_cross  # each publisher gives a key itself, no queue has to find it

    def connect(self, port: int) -> None:
        """Connect and attach; what the gateway answers is read later, as everything else is."""
        assert self.socket is None, "it is connected"
        self._unsent = b""
        self._connection = Connection()
        self._connection.container = self.client_id
        self._transport = Transport()
        if self.account is not None:
            self._connection.user, self._connection.password = self.account
            self._transport.sasl().allow_insecure_mechs = True
            self._transport.sasl().allowed_mechs("PLAIN")
        self._transport.bind(self._connection)
        self._connection.open()
        session = self._connection.session()
        session.open()
        self._link = session.receiver(self.client_id)
        self._link.source.address = self._queue
        self._link.open()
        self._link.flow(self._credit)
        self.socket = socket.create_connection(("127.0.0.1", port), ANSWER_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.connected_count += 1
        self._send_pending()

    def read_on(self) -> None:
        """Handle what has arrived; at the end of the stream, let go of the socket."""
        assert self.socket is not None
        try:
            data = self.socket.recv(min(1 << 16, max(1, self._transport.capacity())))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.hang_up()
            return
        self._transport.push(data)
        while self._link.current is not None and self._link.current.readable and not self._link.current.partial:
            delivery = self._link.current
            message = Message()
            message.decode(self._link.recv(delivery.pending) or b"")
            self._link.advance()
            self.unsettled.append((delivery, self._note(message)))
        self.settle_down_to(self.hold_count)
        self._send_pending()

    def settle_down_to(self, hold_count: int) -> None:
        """Accept the oldest until no more than so many are unsettled."""
        settled = 0
        while len(self.unsettled) > hold_count:
            delivery, _ = self.unsettled.popleft()
            delivery.update(Delivery.ACCEPTED)
            delivery.settle()
            settled += 1
        if settled:
            self._link.flow(settled)
            self._send_pending()

    def say_goodbye(self) -> None:
        """Close the connection, and let go of the socket once that is written."""
        self._connection.close()
        self._send_pending()
        self.hang_up()

    def _send_pending(self) -> None:
        waiting = self._transport.pending()
        if waiting > 0:
            data = bytes(self._transport.peek(waiting) or b"")
            self._transport.pop(len(data))
            self.send(data)

    def _note(self, message: Message) -> Received:
        self.received_count += 1
        body = message.body
        text = bytes(body).decode() if isinstance(body, memoryview) else str(body)
        key, _, number = text.partition(":")
        assert message.group_id == key or not self._keys_cross, "the key crosses as group-id"
        is_redelivered = not message.first_acquirer
        assert is_redelivered or message.delivery_count == 0
        received = Received(self.client_id, key, int(number), "", is_redelivered, False)
        self._record(received)
        return received
