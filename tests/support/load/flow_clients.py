"""Clients of the flow protocol among those of `mqtt_clients`: the real client core on a bare socket."""

import random
import time
from collections import deque
from collections.abc import Callable, Sequence

from sluicegate.protocols.flow.client.messages import Message
from sluicegate.protocols.flow.client.options import ClientOptions
from sluicegate.protocols.flow.client.session.flow import ENDED, OPEN, ClientFlow
from sluicegate.protocols.flow.client.session.inbox import Inbox
from sluicegate.protocols.flow.client.session.outbox import Outbox
from sluicegate.protocols.flow.client.session.session import ClientSession
from sluicegate.protocols.flow.codec.frames.settle import OUTCOME_ACCEPTED
from support.load.mqtt_clients import Account, NumberedPublisher, Received, Sent, WireClient, dialled

BYTES_MAX = 1 << 20


class FlowLink:
    """A session of one flow, on as many connections of a client as it takes."""

    def __init__(self, client: WireClient, flow: ClientFlow, account: Account | None) -> None:
        user, password = account or ("", "")
        options = ClientOptions(
            client_name=client.client_id, username=user, password=password, allow_plain_without_tls=True
        )
        self._client = client
        self._flow = flow
        self._session = ClientSession(
            options, random_bytes=random.Random(1).randbytes, jitter=lambda: 0.0, now_ms=_now_ms()
        )
        self._session.add(flow, _now_ms())

    def connect(self, port: int) -> None:
        """Connect, and open the flow; what the gateway answers is read later."""
        dialled(self._client, port).setblocking(False)
        self._session.connected(_now_ms(), is_encrypted=False)
        self.flush()

    def read(self) -> None:
        """Take in what has arrived; at the end of the stream, let go of the socket."""
        client = self._client
        assert client.socket is not None
        try:
            data = client.socket.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            client.hang_up()
            self._session.disconnected("gone", _now_ms())
            return
        self._session.feed(data, _now_ms(), _now_ms())
        self._session.take_events()
        self._session.flows.take_news()
        assert self._session.error is None, self._session.error
        assert self._flow.phase != ENDED, self._flow.error
        self.flush()

    def flush(self) -> None:
        """Write the bytes that are ready to send."""
        if self._client.socket is None:
            return
        while data := self._session.take(_now_ms()):
            self._client.send(data)


class FlowWirePublisher(NumberedPublisher):
    """Publishes under a name, and again what was not answered when the connection broke."""

    def __init__(
        self, name: str, *, topic: str, keys: Sequence[str], window: int = 50, account: Account | None = None
    ) -> None:
        super().__init__(name, topic=topic, keys=keys)
        self._outbox = Outbox(name, window=window, bytes_max=BYTES_MAX)
        self._link = FlowLink(self, self._outbox, account)
        self._under_way: dict[int, Sent] = {}  # by sequence

    def connect(self, port: int) -> None:
        """Connect, and go on where the gateway is."""
        self._link.connect(port)

    def read_on(self) -> None:
        """Take confirmations."""
        self._link.read()
        for outgoing in self._outbox.answered:
            assert outgoing.refusal is None, outgoing.refusal
            self.is_confirmed(self._under_way.pop(outgoing.sequence))
        self._outbox.answered.clear()

    def step(self) -> None:
        """Publish while there is room."""
        if self.socket is None:
            return
        while self.publishing and self._outbox.phase == OPEN and self._outbox.has_room():
            sent = self.next_sent()
            message = Message(f"{sent.key}:{sent.number}".encode(), topic=f"{self.topic}/{sent.key}", key=sent.key)
            self._under_way[self._outbox.put(message, 0, is_awaited=True).sequence] = sent
        self._link.flush()


class FlowWireConsumer(WireClient):
    """Consumes a queue, and settles late: up to `hold_count` messages stay unsettled."""

    def __init__(
        self,
        name: str,
        *,
        queue: str,
        record: Callable[[Received], None],
        hold_count: int = 0,
        account: Account | None = None,
    ) -> None:
        super().__init__(name)
        self.hold_count = hold_count
        self.places: dict[tuple[str, int], set[tuple[int, int]]] = {}  # by message: partition and sequence of each copy
        self._inbox = Inbox(queue, window=50, window_bytes=BYTES_MAX, unsettled_max=0, renew_every_ms=0)
        self._link = FlowLink(self, self._inbox, account)
        self._record = record
        self._unsettled: deque[int] = deque()  # delivery ids

    def connect(self, port: int) -> None:
        """Connect and bind. What was unsettled is the queue's again."""
        self._unsettled.clear()
        self._link.connect(port)

    @property
    def is_bound(self) -> bool:
        """Whether the queue has bound it. Before the first time, a refusal is for good."""
        return self._inbox.phase == OPEN

    def read_on(self) -> None:
        """Record what has come, and settle some."""
        self._link.read()
        for delivered in self._inbox.take(self._inbox.waiting_count):
            key, _, number = delivered.payload.decode().partition(":")
            self._unsettled.append(delivered.delivery_id)
            self.places.setdefault((key, int(number)), set()).add((delivered.partition, delivered.message_id))
            partition, redelivered = str(delivered.partition), delivered.redelivered
            self._record(Received(self.client_id, key, int(number), partition, redelivered, False))
        self.settle_down_to(self.hold_count)

    def settle_down_to(self, hold_count: int) -> None:
        """Accept the oldest until no more than so many are unsettled."""
        while self.socket is not None and len(self._unsettled) > hold_count:
            delivery_id = self._unsettled.popleft()
            self._inbox.settle(self._inbox.bind_count, delivery_id, delivery_id, OUTCOME_ACCEPTED)
        self._link.flush()


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
