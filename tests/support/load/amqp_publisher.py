"""An AMQP publisher among the clients of `mqtt_clients`: its link resumes with its unsettled deliveries (2.6.13)."""

from collections.abc import Sequence

from sluicegate.protocols.amqp.codec.delivery_states import ACCEPTED
from sluicegate.protocols.amqp.codec.dispositions import Disposition
from sluicegate.protocols.amqp.codec.frames import frame, sasl_frame
from sluicegate.protocols.amqp.codec.performatives import (
    INIT,
    SENDER_UNSETTLED,
    TRANSFER,
    Attach,
    Begin,
    Detach,
    Flow,
    Open,
)
from sluicegate.protocols.amqp.codec.termini import NEVER, Source, Target
from sluicegate.protocols.amqp.types.encoding import encode, encode_composite, encode_performative
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Described, Symbol, uint, ulong
from support.amqp.received import Ended, Heard, understood
from support.load.mqtt_clients import Account, NumberedPublisher, Sent, dialled

AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
HANDLE = 0
WINDOW = 10_000


class AmqpWirePublisher(NumberedPublisher):
    """Publishes on a link whose deliveries it resumes: each has a tag of its own, for ever."""

    def __init__(
        self,
        container: str,
        *,
        topic: str,
        keys: Sequence[str],
        window: int = 50,
        account: Account | None = None,
        to: str | None = None,
    ) -> None:
        super().__init__(container, topic=topic, keys=keys)
        self.account = account
        self._to = to  # the address of all messages, in place of the topic with the key as last level
        self.window = window
        self._out: dict[bytes, Sent] = {}  # by tag: not settled, in the order sent
        self._tags_count = 0
        self._begin()

    def connect(self, port: int) -> None:
        """Connect, and attach the link with the map of what is unsettled; the answers are read later."""
        self._begin()
        link = dialled(self, port)
        if self.account is not None:
            self._sign_in(self.account)
        link.setblocking(False)
        self.send(AMQP_HEADER)
        self._say(Open(self.client_id).encode())
        self._say(Begin(next_outgoing_id=0, incoming_window=WINDOW, outgoing_window=WINDOW).encode())
        unsettled: list[tuple[AmqpValue, AmqpValue]] = [(tag, None) for tag in self._out]
        attach = Attach(
            "out",
            handle=HANDLE,
            is_receiver=False,
            sender_settle_mode=SENDER_UNSETTLED,
            source=Source("here"),
            target=Target(None, expiry_policy=NEVER),
            unsettled=AmqpMap(unsettled) if unsettled else None,
            initial_delivery_count=0,
        )
        self._say(attach.encode())

    def _begin(self) -> None:
        self._unread = b""
        self._tags: dict[int, bytes] = {}  # by delivery id on this connection
        self._credit = 0
        self._may_send = False

    def _sign_in(self, account: Account) -> None:
        assert self.socket is not None
        response = f"\0{account.user}\0{account.password}".encode()
        fields: list[AmqpValue] = [Symbol("PLAIN"), response]
        self.socket.sendall(SASL_HEADER + sasl_frame(encode_composite(INIT, fields)))
        assert self._read_exactly(8) == SASL_HEADER
        for _ in ("mechanisms", "outcome"):
            last = self._read_exactly(int.from_bytes(self._read_exactly(4), "big") - 4)
        assert last.endswith(b"\x50\x00"), "the account is known"

    def _read_exactly(self, count: int) -> bytes:
        assert self.socket is not None
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            assert piece, "closed instead of an answer"
            data += piece
        return data

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
        frames, self._unread = _heard_in(self._unread + data)
        for heard in frames:
            self._handle(heard)

    def step(self) -> None:
        """Publish while there are credit and room."""
        while self.publishing and self._may_send and len(self._out) < self.window and len(self._tags) < self._credit:
            self._tags_count += 1
            tag = b"%d" % self._tags_count
            self._out[tag] = self.next_sent()
            self._transfer(tag, resumes=False)

    def _handle(self, heard: Heard) -> None:
        if isinstance(heard, Flow) and heard.handle >= 0:
            self._credit = heard.delivery_count + heard.link_credit
            if not self._may_send and self._credit:
                self._may_send = True
                for tag in self._out:
                    self._transfer(tag, resumes=True)
        elif isinstance(heard, Attach):
            assert heard.unsettled is None or not heard.unsettled.pairs, "a gateway that crashed remembers no link"
        elif isinstance(heard, Disposition):
            assert heard.state is not None
            assert heard.state.code == ACCEPTED, heard.state.error
            for delivery_id in range(heard.first, heard.last + 1):
                self.is_confirmed(self._out.pop(self._tags[delivery_id]))
        assert not isinstance(heard, (Detach, Ended)), heard

    def _transfer(self, tag: bytes, *, resumes: bool) -> None:
        sent = self._out[tag]
        delivery_id = len(self._tags)
        self._tags[delivery_id] = tag
        fields: list[AmqpValue] = [uint(HANDLE), uint(delivery_id), tag, uint(0), False, False]
        fields += [None, None, True] if resumes else []
        to = self._to or f"topic://{self.topic}/{sent.key}"
        properties: list[AmqpValue] = [None, None, to, *[None] * 7, sent.key]
        message = encode(Described(ulong(0x70), [True])) + encode(Described(ulong(0x73), properties))
        message += encode(Described(ulong(0x75), f"{sent.key}:{sent.number}".encode()))
        self._say(encode_performative(TRANSFER, fields) + message)

    def _say(self, performative: bytes) -> None:
        self.send(frame(0, performative))


def _heard_in(data: bytes) -> tuple[list[Heard], bytes]:
    """Return the content of whole frames, and the bytes after them."""
    frames: list[Heard] = []
    place = 0
    if AMQP_HEADER.startswith(data[:8]):
        if len(data) < 8:
            return [], data
        place = 8
    while place + 8 <= len(data):
        size = int.from_bytes(data[place : place + 4], "big")
        if place + size > len(data):
            break
        if size > 8:  # else it is a heartbeat
            frames.append(understood(data[place + 8 : place + size]))
        place += size
    return frames, data[place:]
