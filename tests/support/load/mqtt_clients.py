"""MQTT clients on bare sockets for tests under load: many in one thread, with each step visible to the test.

They keep over a broken connection what a real device keeps: which publishes are not confirmed, and which packet ids are
between PUBREC and PUBCOMP. So they rely only on promises of the standard.
"""

import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import support.mqtt.packets as mqtt

NEVER_EXPIRES: Final = 0xFFFF_FFFF
ANSWER_S: Final = 45
USER_PROPERTY: Final = 38
KEY_PROPERTY: Final = "JMSXGroupID"
SESSION_EXPIRY: Final = mqtt.session_expiry(NEVER_EXPIRES)


class Account(NamedTuple):
    """As whom a client comes."""

    user: str
    password: str


class NotLetIn(Exception):
    """The server has refused a client, or closed its connection."""


class WireClient:
    """A connection that may break and be opened again. Subclasses handle the packets."""

    def __init__(self, client_id: str, *, level: int = 5, persistent: bool = True, receive_maximum: int = 0) -> None:
        self.client_id = client_id
        self.level = level
        self.persistent = persistent
        self.receive_maximum = receive_maximum
        self.account: Account | None = None  # whose user it is; None: nobody's
        self.socket: socket.socket | None = None
        self.session_present = False
        self.disconnect_code: int | None = None  # what the server said as it closed the connection
        self.connected_count = 0
        self._unread = b""
        self._unsent = b""

    @property
    def wants_write(self) -> bool:
        return bool(self._unsent)

    def connect(self, port: int) -> None:
        """Connect and wait for CONNACK; then continue where an earlier connection ended. Raises NotLetIn."""
        assert self.socket is None, "it is connected"
        self._unread, self._unsent, self.disconnect_code = b"", b"", None
        properties = b"" if self.level < 5 or not self.persistent else SESSION_EXPIRY
        properties += mqtt.receive_maximum(self.receive_maximum) if self.level == 5 and self.receive_maximum else b""
        self.socket = socket.create_connection(("127.0.0.1", port), ANSWER_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(
            mqtt.connect(
                self.client_id,
                level=self.level,
                clean_start=not self.persistent,
                user_name=None if self.account is None else self.account.user,
                password=None if self.account is None else self.account.password.encode(),
                properties=properties,
            )
        )
        packets: list[mqtt.Packet] = []
        while not packets:
            data = self.socket.recv(65536)
            if not data:
                self.hang_up()
                raise NotLetIn(self.client_id, "closed instead of CONNACK")
            packets, self._unread = mqtt.take_packets(self._unread + data)
        answer = mqtt.connack(packets[0], self.level)
        if answer.reason_code != 0:
            self.hang_up()
            raise NotLetIn(self.client_id, answer)
        self.session_present = answer.session_present
        self.socket.setblocking(False)
        self.connected_count += 1
        self.resume()
        for packet in packets[1:]:
            self.heard(packet)

    def send(self, data: bytes) -> None:
        """Send what the socket takes, and keep the rest until it takes more."""
        self._unsent += data
        self.write_on()

    def drop_unsent(self) -> None:
        """Forget what the socket has not taken."""
        self._unsent = b""

    def write_on(self) -> None:
        """Send more of what is kept."""
        if self.socket is None or not self._unsent:
            return
        try:
            sent = self.socket.send(self._unsent)
        except BlockingIOError:
            return
        except OSError:  # the reading side finds out, and reads what is there before
            sent = len(self._unsent)
        self._unsent = self._unsent[sent:]

    def read_on(self) -> None:
        """Handle what has arrived; at the end of the stream, let go of the socket."""
        assert self.socket is not None
        try:
            data = self.socket.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.hang_up()
            return
        packets, self._unread = mqtt.take_packets(self._unread + data)
        for packet in packets:
            if packet.kind == mqtt.DISCONNECT:
                self.disconnect_code = packet.body[0] if packet.body else 0
            else:
                self.heard(packet)

    def read_to_the_end(self) -> None:
        """Handle everything that a gateway sent before it died."""
        while self.socket is not None:
            select.select([self.socket], [], [], ANSWER_S)
            self.read_on()

    def hang_up(self) -> None:
        """Let go of the socket without a goodbye."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    def say_goodbye(self) -> None:
        """Send DISCONNECT and let go of the socket."""
        self.send(mqtt.disconnect())
        self.hang_up()

    def resume(self) -> None:
        """Send what goes first on a new connection."""

    def heard(self, packet: mqtt.Packet) -> None:
        """Handle a packet of the server."""

    def step(self) -> None:
        """Do what can be done now, without anything having arrived."""


class Sent(NamedTuple):
    """A publish under way."""

    key: str
    number: int


class WirePublisher(WireClient):
    """Publishes numbers per key, as fast as they are confirmed, and again what was not when a connection broke.

    The payload is `KEY:NUMBER`; numbers of a key begin at 1 and ascend by 1.
    """

    def __init__(
        self,
        client_id: str,
        *,
        topic: str,
        keys: list[str],
        qos: int,
        level: int = 5,
        window: int = 50,
        padding: bytes = b"",
    ) -> None:
        super().__init__(client_id, level=level)
        self.topic = topic
        self.qos = qos
        self.window = window
        self.padding = padding
        self.confirmed: dict[str, int] = dict.fromkeys(keys, 0)  # the highest number; those below are too
        self.sent: dict[str, int] = dict.fromkeys(keys, 0)
        self.refused: list[int] = []  # reason codes
        self.publishing = True
        self._keys = deque(keys)
        self._under_way: dict[int, Sent] = {}  # by packet id, in the order sent
        self._released: dict[int, None] = {}  # between PUBREC and PUBCOMP
        self._next_packet_id = 1

    @property
    def confirmed_count(self) -> int:
        return sum(self.confirmed.values())

    @property
    def is_idle(self) -> bool:
        """Whether everything sent is confirmed."""
        return not self._under_way and not self._released

    def step(self) -> None:
        """Publish while the window has room."""
        data = bytearray()
        while self.publishing and self.socket is not None and len(self._under_way) + len(self._released) < self.window:
            key = self._keys[0]
            self._keys.rotate(-1)
            self.sent[key] += 1
            packet_id = self._free_packet_id()
            self._under_way[packet_id] = Sent(key, self.sent[key])
            data += self._publish(packet_id, dup=False)
        if data:
            self.send(bytes(data))

    def resume(self) -> None:
        """Send again what was not confirmed, in the order sent [4.4.0-1]."""
        if self.connected_count > 1:
            assert self.session_present, f"{self.client_id}: its session is lost"
        data = [mqtt.pubrel(packet_id) for packet_id in self._released]
        data += [self._publish(packet_id, dup=True) for packet_id in self._under_way]
        self.send(b"".join(data))

    def heard(self, packet: mqtt.Packet) -> None:
        """Take a confirmation."""
        packet_id = mqtt.packet_id_of(packet)
        reason_code = packet.body[2] if len(packet.body) > 2 else 0
        if packet.kind == mqtt.PUBCOMP:
            self._released.pop(packet_id, None)
            return
        if packet.kind == mqtt.PUBREC and packet_id in self._released:
            self.send(mqtt.pubrel(packet_id))
            return
        assert packet.kind == (mqtt.PUBACK if self.qos == 1 else mqtt.PUBREC), packet
        if reason_code >= 0x80:
            self.refused.append(reason_code)
            self._give_up(packet_id)
            return
        sent = self._under_way.pop(packet_id)
        # Confirmations come in the order published, so the highest number says it all.
        assert sent.number == self.confirmed[sent.key] + 1, (self.client_id, sent, self.confirmed[sent.key])
        self.confirmed[sent.key] = sent.number
        if packet.kind == mqtt.PUBREC:
            self._released[packet_id] = None
            self.send(mqtt.pubrel(packet_id))

    def _give_up(self, packet_id: int) -> None:
        """Take a refused number back, to be published again; those behind it must be refused as well."""
        sent = self._under_way.pop(packet_id)
        self.sent[sent.key] = min(self.sent[sent.key], sent.number - 1)

    def _publish(self, packet_id: int, *, dup: bool) -> bytes:
        sent = self._under_way[packet_id]
        properties = mqtt.user_property(KEY_PROPERTY, sent.key) if self.level == 5 else b""
        payload = f"{sent.key}:{sent.number}".encode() + self.padding
        topic = f"{self.topic}/{sent.key}"
        return mqtt.publish(
            topic, payload, level=self.level, qos=self.qos, packet_id=packet_id, dup=dup, properties=properties
        )

    def _free_packet_id(self) -> int:
        while self._next_packet_id in self._under_way or self._next_packet_id in self._released:
            self._next_packet_id = self._next_packet_id % 65535 + 1
        packet_id = self._next_packet_id
        self._next_packet_id = packet_id % 65535 + 1
        return packet_id


class Received(NamedTuple):
    """A message that a consumer was given."""

    consumer: str
    key: str
    number: int
    partition: str  # of a named queue; empty otherwise
    redelivered: bool  # as the gateway says
    dup: bool


class WireConsumer(WireClient):
    """Consumes from a topic filter or a queue, and acknowledges late: up to `hold_count` messages stay unsettled."""

    def __init__(
        self,
        client_id: str,
        *,
        filter_text: str,
        qos: int,
        record: Callable[[Received], None],
        level: int = 5,
        hold_count: int = 0,
        receive_maximum: int = 100,
    ) -> None:
        super().__init__(client_id, level=level, receive_maximum=receive_maximum)
        self.filter_text = filter_text
        self.qos = qos
        self.hold_count = hold_count
        self.received_count = 0
        self.subscribed = False
        self._record = record
        self.unsettled: deque[tuple[int, Received]] = deque()  # QoS 1, with packet ids, oldest first
        self._owned: set[int] = set()  # packet ids of QoS 2 between PUBREC and PUBREL

    def resume(self) -> None:
        """Subscribe; a session that is there has done so already, and is told to forget what it held unsettled."""
        self.unsettled.clear()
        if self.connected_count > 1:
            assert self.session_present, f"{self.client_id}: its session is lost"
        if not self.session_present:
            self.send(mqtt.subscribe((self.filter_text, self.qos), level=self.level))

    def heard(self, packet: mqtt.Packet) -> None:
        """Record a message and settle one."""
        if packet.kind == mqtt.SUBACK:
            assert mqtt.suback_codes(packet, self.level) == [self.qos], packet
            self.subscribed = True
            return
        if packet.kind == mqtt.PUBREL:
            self._owned.discard(mqtt.packet_id_of(packet))
            self.send(mqtt.acknowledgement(mqtt.PUBCOMP, mqtt.packet_id_of(packet)))
            return
        message = mqtt.published(packet, self.level)
        if message.qos == 2:
            if message.packet_id not in self._owned:
                self._owned.add(message.packet_id)
                self._note(message)
            self.send(mqtt.pubrec(message.packet_id))
        else:
            self.unsettled.append((message.packet_id, self._note(message)))
            self.settle_down_to(self.hold_count)

    def settle_down_to(self, hold_count: int) -> None:
        """Acknowledge the oldest until no more than so many are unsettled."""
        data = bytearray()
        while len(self.unsettled) > hold_count:
            data += mqtt.puback(self.unsettled.popleft()[0])
        if data:
            self.send(bytes(data))

    def _note(self, message: mqtt.Published) -> Received:
        self.received_count += 1
        key, _, number = message.payload.rstrip(b".").decode().partition(":")
        properties = dict(_pairs(message))
        partition = properties.get("sluicegate-partition", "")
        redelivered = properties.get("sluicegate-redelivered") == "true"
        received = Received(self.client_id, key, int(number), partition, redelivered, message.dup)
        self._record(received)
        return received


class NumberedPublisher(WireClient):
    """What publishers of other protocols have in common with `WirePublisher`: numbers per key, one by one from 1."""

    def __init__(self, client_id: str, *, topic: str, keys: Sequence[str]) -> None:
        super().__init__(client_id)
        self.topic = topic
        self.confirmed: dict[str, int] = dict.fromkeys(keys, 0)  # the highest number; those below are too
        self.publishing = True
        self._sent: dict[str, int] = dict.fromkeys(keys, 0)
        self._keys = deque(keys)
        self._early: set[Sent] = set()  # confirmed before something that was sent before

    @property
    def confirmed_count(self) -> int:
        return sum(self.confirmed.values())

    @property
    def is_idle(self) -> bool:
        """Whether everything sent is confirmed."""
        return self.confirmed_count == sum(self._sent.values())

    def next_sent(self) -> Sent:
        """Return what is to be published next."""
        key = self._keys[0]
        self._keys.rotate(-1)
        self._sent[key] += 1
        return Sent(key, self._sent[key])

    def is_confirmed(self, sent: Sent) -> None:
        """Note a confirmation. In AMQP what is settled before it is stored has its own before those before it."""
        assert sent.number > self.confirmed[sent.key], (self.client_id, sent, self.confirmed[sent.key])
        assert sent not in self._early, (self.client_id, sent)
        self._early.add(sent)
        while (following := Sent(sent.key, self.confirmed[sent.key] + 1)) in self._early:
            self._early.remove(following)
            self.confirmed[sent.key] += 1


def dialled(client: WireClient, port: int) -> socket.socket:
    """Return the socket of a client that connects again."""
    assert client.socket is None, "it is connected"
    client.socket = socket.create_connection(("127.0.0.1", port), ANSWER_S)
    client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client.connected_count += 1
    client.drop_unsent()
    return client.socket


@contextmanager
def hung_up_at_the_end(clients: Sequence[WireClient]) -> Iterator[None]:
    """Leave no socket open, however the test ends."""
    try:
        yield
    finally:
        for client in clients:
            client.hang_up()


def run_until(clients: Sequence[WireClient], condition: Callable[[], bool], *, within_s: float, what: str) -> None:
    """Serve all clients until the condition holds. Raises AssertionError with `what` if that takes too long."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {within_s} s for {what}"
        turn(clients)


def turn(clients: Sequence[WireClient]) -> None:
    """Let every client send and read what it can at present."""
    for client in clients:
        client.step()
    readers = {client.socket: client for client in clients if client.socket is not None}
    writers = {client.socket: client for client in clients if client.socket is not None and client.wants_write}
    readable, writable, _ = select.select(list(readers), list(writers), [], 0.05)
    for ready in writable:
        writers[ready].write_on()
    for ready in readable:
        readers[ready].read_on()


def _pairs(message: mqtt.Published) -> Iterator[tuple[str, str]]:
    for value in message.values(USER_PROPERTY):
        assert isinstance(value, tuple)
        yield value
