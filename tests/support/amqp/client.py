"""An AMQP client on a raw socket, for whole-broker tests: a test sends frames and reads frames.

So it can do what client libraries do not: transactions that end badly, links that resume, settlements of every kind. It
uses the gateway's own codec, which tests with Proton check against the standard. It grants, settles and answers nothing
unless the test says so. Every wait has a deadline; nothing sleeps.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, cast

from sluicegate.protocols.amqp.codec.delivery_states import ACCEPTED_STATE, TRANSACTIONAL, DeliveryState
from sluicegate.protocols.amqp.codec.dispositions import Disposition, disposition_bytes
from sluicegate.protocols.amqp.codec.frames import frame, sasl_frame
from sluicegate.protocols.amqp.codec.performatives import (
    CLOSE,
    END,
    INIT,
    SENDER_MIXED,
    SENDER_SETTLED,
    SENDER_UNSETTLED,
    Attach,
    Begin,
    Detach,
    Flow,
    Open,
    encode_ending,
)
from sluicegate.protocols.amqp.codec.termini import Coordinator, Source, Target
from sluicegate.protocols.amqp.types.encoding import encode, encode_composite
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Described, Symbol, uint, ulong
from support.amqp.received import Ended, Heard, Kind, Received, understood
from support.broker.running_broker import RunningBroker
from support.network.closing_stream import open_closing

DEADLINE_S: Final = 20.0
AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
INCOMING_WINDOW: Final = 100_000


def body(value: AmqpValue) -> bytes:
    """Return a message with nothing but an amqp-value."""
    return encode(Described(ulong(0x77), value))


def in_transaction(txn_id: bytes, outcome: DeliveryState | None = ACCEPTED_STATE) -> DeliveryState:
    """Return a transactional state."""
    return DeliveryState(TRANSACTIONAL, txn_id=txn_id, outcome=outcome)


class AmqpClient:
    """One client's socket. Channel 0 has a session from the beginning."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._heard: list[tuple[int, Heard]] = []  # with its channel
        self._received_counts: dict[int, int] = {}  # by channel: transfers
        self._sent_counts: dict[int, int] = {}
        self._unconfirmed: set[int] = set()
        self._gathered: list[bytes] | None = None  # frames that go out in one write; None: each by itself

    @classmethod
    async def open(
        cls,
        port: int,
        container: str = "c",
        *,
        desired: list[str] | None = None,
        window: int = INCOMING_WINDOW,
        account: tuple[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> "AmqpClient":
        """Connect, as the user of an account if there is one, and open a session."""
        client = cls(*await open_closing(port, tls=tls))
        try:
            if account is not None:
                await client._sign_in(*account)
            client._writer.write(AMQP_HEADER)
            client.send(Open(container, desired=desired).encode())
            client.send(Begin(next_outgoing_id=0, incoming_window=window, outgoing_window=1000).encode())
            assert await asyncio.wait_for(client._reader.readexactly(8), DEADLINE_S) == AMQP_HEADER
        except BaseException:
            client.vanish()
            raise
        return client

    async def _sign_in(self, user: str, password: str) -> None:
        fields: list[AmqpValue] = [Symbol("PLAIN"), f"\0{user}\0{password}".encode()]
        self._writer.write(SASL_HEADER + sasl_frame(encode_composite(INIT, fields)))
        async with asyncio.timeout(DEADLINE_S):
            assert await self._reader.readexactly(8) == SASL_HEADER
            for _ in ("mechanisms", "outcome"):
                size = int.from_bytes(await self._reader.readexactly(4), "big")
                last = await self._reader.readexactly(size - 4)
        assert last.endswith(b"\x50\x00"), "the account is known"

    @property
    def transport(self) -> asyncio.Transport:
        """The transport below."""
        return cast(asyncio.Transport, self._writer.transport)  # uvloop's has another base

    # --- saying: sessions and links ---

    def send(self, performative: bytes, channel: int = 0) -> None:
        """Write a frame."""
        data = frame(channel, performative)
        if self._gathered is None:
            self._writer.write(data)
        else:
            self._gathered.append(data)

    @contextmanager
    def one_write(self, changed: Callable[[list[bytes]], list[bytes]] = list) -> Iterator[None]:
        """Write everything that is said meanwhile at once, frame by frame as `changed` would have it."""
        self._gathered = []
        yield
        gathered, self._gathered = self._gathered, None
        self._writer.write(b"".join(changed(gathered)))

    async def begin(self, channel: int) -> None:
        """Begin one more session."""
        self.send(Begin(next_outgoing_id=0, incoming_window=INCOMING_WINDOW, outgoing_window=1000).encode(), channel)
        self._received_counts[channel] = self._sent_counts[channel] = 0
        await self.awaited(Begin, channel=channel)

    async def attach(self, asked: Attach, *, channel: int = 0) -> Attach:
        """Attach a link; return the broker's attach."""
        self.send(asked.encode(), channel)
        return await self.awaited(Attach, channel=channel)

    async def receiver(
        self,
        name: str,
        source: Source | str | None,
        *,
        handle: int = 0,
        credit: int = 0,
        settled: bool = False,
        rcv_second: bool = False,
        unsettled: AmqpMap | None = None,
        incomplete: bool = False,
        desired: list[str] | None = None,
        properties: AmqpMap | None = None,
        channel: int = 0,
    ) -> Attach:
        """Attach a link to receive on; return the broker's attach."""
        asked = Attach(
            name,
            handle=handle,
            is_receiver=True,
            sender_settle_mode=SENDER_SETTLED if settled else SENDER_UNSETTLED,
            receiver_settle_mode=1 if rcv_second else 0,
            source=Source(source) if isinstance(source, str) else source,
            target=Target("here"),
            unsettled=unsettled,
            incomplete_unsettled=incomplete,
            desired=desired,
            properties=properties,
        )
        answer = await self.attach(asked, channel=channel)
        if credit:
            self.flow(handle, credit, channel=channel)
        return answer

    async def sender(
        self,
        name: str,
        target: Target | Coordinator | str,
        *,
        handle: int = 9,
        outcomes: list[str] | None = None,
        unsettled: AmqpMap | None = None,
        channel: int = 0,
    ) -> Attach:
        """Attach a link to send on; return the broker's attach."""
        asked = Attach(
            name,
            handle=handle,
            is_receiver=False,
            sender_settle_mode=SENDER_MIXED,
            source=Source("here", outcomes=outcomes),
            target=Target(target) if isinstance(target, str) else target,
            unsettled=unsettled,
            initial_delivery_count=0,
        )
        return await self.attach(asked, channel=channel)

    def flow(
        self,
        handle: int,
        credit: int,
        *,
        delivery_count: int = 0,
        drain: bool = False,
        echo: bool = False,
        window: int = INCOMING_WINDOW,
        properties: AmqpMap | None = None,
        channel: int = 0,
    ) -> None:
        """Grant credit on a link."""
        said = self._session_flow(channel, window)
        said.handle, said.link_credit, said.delivery_count = handle, credit, delivery_count
        said.drain, said.echo, said.properties = drain, echo, properties
        self.send(said.encode(), channel)

    def _session_flow(self, channel: int, window: int = INCOMING_WINDOW) -> Flow:
        return Flow(
            next_incoming_id=self._received_counts.get(channel, 0),
            incoming_window=window,
            next_outgoing_id=self._sent_counts.get(channel, 0),
            outgoing_window=1000,
        )

    def detach(self, handle: int, *, closed: bool = True, channel: int = 0) -> None:
        self.send(Detach(handle, closed=closed).encode(), channel)

    async def detached(self, handle: int, *, closed: bool, channel: int = 0) -> None:
        """Detach a link, and wait for the broker's detach."""
        self.detach(handle, closed=closed, channel=channel)
        await self.awaited(Detach, channel=channel)

    def end_session(self, channel: int = 0) -> None:
        self.send(encode_ending(END, None), channel)

    async def ended(self, channel: int) -> None:
        """End a session, and wait for the broker's end."""
        self.end_session(channel)
        await self.awaited(Ended, channel=channel)

    async def close(self) -> None:
        """Close the connection in good order."""
        self.send(encode_ending(CLOSE, None))
        while (await self.awaited(Ended)).code != CLOSE:
            pass
        self._writer.close()

    async def ends(self) -> None:
        """Send nothing more, and wait until the broker has read everything and closed."""
        self._writer.write_eof()
        with suppress(asyncio.IncompleteReadError):
            while True:
                await self._read()
        self._writer.close()

    def vanish(self) -> None:
        """Be gone without a word."""
        self._writer.transport.abort()

    # --- saying: messages ---

    @property
    def sent_count(self) -> int:
        """Messages sent on channel 0."""
        return self._sent_counts.get(0, 0)

    def transfer(
        self,
        handle: int,
        message: bytes,
        *,
        settled: bool = False,
        state: DeliveryState | None = None,
        tag: bytes | None = None,
        resume: bool = False,
        channel: int = 0,
    ) -> int:
        """Send a message; return its delivery id."""
        delivery_id = self._sent_counts.get(channel, 0)
        self._sent_counts[channel] = delivery_id + 1
        tag = delivery_id.to_bytes(4, "big") if tag is None else tag
        fields: list[AmqpValue] = [uint(handle), uint(delivery_id), tag, uint(0), settled, False, None]
        described = b"\x40" if state is None else state.encode()
        encoded = b"".join([encode(each) for each in fields]) + described + encode(resume)
        head = b"\x00\x53\x14\xd0" + (len(encoded) + 4).to_bytes(4, "big") + (9).to_bytes(4, "big")
        self.send(head + encoded + message, channel)
        if not settled and channel == 0:
            self._unconfirmed.add(delivery_id)
        return delivery_id

    def settle(
        self,
        first: int,
        last: int | None = None,
        state: DeliveryState | None = ACCEPTED_STATE,
        *,
        settled: bool = True,
        channel: int = 0,
    ) -> None:
        """Send a disposition for deliveries."""
        last = first if last is None else last
        said = disposition_bytes(is_receiver=True, first=first, last=last, settled=settled, state=state)
        self.send(said, channel)

    # --- saying: transactions ---

    async def coordinator(self, handle: int, *, outcomes: list[str] | None = None, channel: int = 0) -> Attach:
        """Attach to the coordinator."""
        return await self.sender("coordinator", Coordinator([]), handle=handle, outcomes=outcomes, channel=channel)

    async def declare(self, handle: int, *, channel: int = 0) -> bytes:
        """Declare a transaction; return its id."""
        delivery_id = self.transfer(handle, body(Described(ulong(0x31), [])), channel=channel)
        state = await self.outcome(delivery_id, channel=channel)
        assert state.txn_id, state
        return state.txn_id

    def ask_discharge(self, handle: int, txn_id: bytes, *, fail: bool = False, channel: int = 0) -> int:
        """Discharge a transaction; return the delivery id of the request."""
        return self.transfer(handle, body(Described(ulong(0x32), [txn_id, fail])), channel=channel)

    async def discharge(self, handle: int, txn_id: bytes, *, fail: bool = False, channel: int = 0) -> DeliveryState:
        """Discharge a transaction; return the outcome."""
        return await self.outcome(self.ask_discharge(handle, txn_id, fail=fail, channel=channel), channel=channel)

    # --- hearing ---

    async def awaited(self, kind: type[Kind], *, channel: int | None = None) -> Kind:
        """Return the oldest frame of a kind, those of other kinds are kept."""
        return await self._first(kind, lambda at, _: channel in (None, at))

    async def heard(self) -> Heard:
        """Return the next frame, of whatever kind."""
        return (self._heard.pop(0) if self._heard else await self._read())[1]

    async def delivery(self, *, channel: int = 0) -> Received:
        """Return the next delivery on a channel."""
        return await self.awaited(Received, channel=channel)

    async def deliveries(self, count: int) -> list[Received]:
        """Return the next deliveries."""
        return [await self.delivery() for _ in range(count)]

    async def confirmed(self) -> None:
        """Wait until every message sent on here has its outcome."""
        while self._unconfirmed:
            answer = await self.awaited(Disposition)
            self._unconfirmed -= set(range(answer.first, answer.last + 1))

    async def outcome(self, delivery_id: int, *, channel: int = 0) -> DeliveryState:
        """Return the outcome of what was sent: that of its disposition, whose other ids wait for their own reader."""
        found = await self._first(
            Disposition,
            lambda at, said: at == channel and said.is_receiver and said.first <= delivery_id <= said.last,
            keeps=True,
        )
        assert found.settled, "an outcome of the broker is settled"
        assert found.state is not None
        self._unconfirmed.discard(delivery_id)
        return found.state

    async def said_of(self, delivery_id: int) -> tuple[DeliveryState, bool]:
        """Return the broker's disposition of a delivery: its state, and whether it is settled."""
        found = await self._first(
            Disposition, lambda _, said: not said.is_receiver and said.first <= delivery_id <= said.last
        )
        assert found.state is not None
        return found.state, found.settled

    async def is_detached(self, condition: str) -> None:
        """The broker detaches a link for this reason; it is answered."""
        found = await self.awaited(Detach)
        assert found.error is not None
        assert found.error.condition == condition, found.error
        self.detach(found.handle)

    async def until_flow(self, handle: int, *, drain: bool = True) -> tuple[list[Received], Flow]:
        """Return everything delivered before the broker's next flow on a link that gives credit back, and the flow."""
        before: list[Received] = []
        while True:
            heard = await self.heard()
            if isinstance(heard, Received):
                before.append(heard)
            elif isinstance(heard, Flow) and heard.handle == handle and heard.drain == drain:
                return before, heard

    async def round_trip(self, *, channel: int = 0, window: int = INCOMING_WINDOW) -> None:
        """Wait until the broker has read everything said so far."""
        said = self._session_flow(channel, window)
        said.echo = True
        self.send(said.encode(), channel)
        await self._first(Flow, lambda at, flow: at == channel and flow.handle < 0)

    async def is_quiet(self, window: int = INCOMING_WINDOW) -> None:
        """Check that nothing has come, over a few round trips: what was under way has had its turn."""
        for _ in range(3):
            await self.round_trip(window=window)
        assert not [each for _, each in self._heard if not isinstance(each, (Flow, Open, Begin))]

    def nothing_waits(self, kind: type[Heard]) -> bool:
        """Return whether no frame of a kind has come beside those that were awaited."""
        return not any(isinstance(each, kind) for _, each in self._heard)

    async def _first(self, kind: type[Kind], fits: Callable[[int, Kind], bool], *, keeps: bool = False) -> Kind:
        """Return the oldest frame of a kind that fits, by its channel and itself; what comes before it waits."""
        index = 0
        while True:
            if index == len(self._heard):
                self._heard.append(await self._read())
            channel, heard = self._heard[index]
            if isinstance(heard, kind) and fits(channel, heard):
                if not keeps:
                    del self._heard[index]
                return heard
            index += 1

    async def _read(self) -> tuple[int, Heard]:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                head = await self._reader.readexactly(8)
                said = await self._reader.readexactly(int.from_bytes(head[:4], "big") - 8)
                if said:  # else a heartbeat
                    break
        channel, heard = int.from_bytes(head[6:], "big"), understood(said)
        if isinstance(heard, Received):
            self._received_counts[channel] = self._received_counts.get(channel, 0) + 1
        return channel, heard


class AmqpClients:
    """The AMQP clients of one broker."""

    def __init__(self, broker: RunningBroker) -> None:
        self._broker = broker
        self._clients: list[AmqpClient] = []

    async def connect(self, container: str = "client") -> AmqpClient:
        """Return a client whose connection is open."""
        client = await AmqpClient.open(self._broker.amqp_port, container)
        self._clients.append(client)
        return client

    async def all_vanish(self) -> None:
        """Abort every connection that is still open."""
        for client in self._clients:
            client.vanish()


async def refused_with(client: AmqpClient, answer: Attach) -> str:
    assert answer.source is None
    detach = await client.awaited(Detach)
    assert detach.closed
    assert detach.error is not None
    return detach.error.condition
