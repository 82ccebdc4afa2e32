"""An AMQP client on a raw socket, for whole-broker tests: transactions and link recovery as no client library has them.

It opens a connection with one session or more and says what a test tells it. Links, deliveries and dispositions are
numbers and tags that the test chooses, or that count up. Every wait has a deadline; nothing sleeps.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from protocols.amqp.decoding import decode
from protocols.amqp.encoding import encode, encode_composite
from protocols.amqp.frames import frame
from protocols.amqp.outcomes import ACCEPTED, TRANSACTIONAL, DeliveryState, read_error, read_state
from protocols.amqp.performatives import (
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    OPEN,
    TRANSFER,
    Attach,
    Begin,
    Detach,
    Flow,
    Open,
    encode_ending,
    read_attach,
)
from protocols.amqp.termini import Coordinator, Source, Target
from protocols.amqp.values import AmqpMap, AmqpValue, Described, Scalar, uint, ulong
from running_broker import RunningBroker

DEADLINE_S = 20
HEADER = b"AMQP\x00\x01\x00\x00"
CREDIT = 100
ACCEPT = DeliveryState(ACCEPTED)


@dataclass(frozen=True, slots=True)
class Received:
    """One frame: its channel, the code of its performative, the fields of that, and the payload of a transfer."""

    channel: int
    code: int
    fields: list[AmqpValue]
    payload: bytes

    def number(self, index: int) -> int:
        """Return a field that is a number."""
        value = self.fields[index]
        assert isinstance(value, Scalar)
        assert isinstance(value.value, int)
        return value.value

    def state(self, index: int) -> DeliveryState:
        """Return a field that is a delivery state."""
        state = read_state(self.fields[index])
        assert state is not None
        return state


@dataclass(frozen=True, slots=True)
class Message:
    """A delivery to the client."""

    delivery_id: int
    tag: bytes
    body: AmqpValue  # of an amqp-value or of data
    delivery_count: int
    transfer: Received

    @property
    def is_resumed(self) -> bool:
        """Whether the broker says that the client has it from an earlier time of the link."""
        return self.transfer.fields[8] is True


def body(value: AmqpValue) -> bytes:
    """Return a message with nothing but an amqp-value."""
    return encode(Described(ulong(0x77), value))


def in_transaction(txn_id: bytes, outcome: DeliveryState | None = ACCEPT) -> DeliveryState:
    """Return a transactional state."""
    return DeliveryState(TRANSACTIONAL, txn_id=txn_id, outcome=outcome)


class RawAmqp:
    """One connection. Channel 0 has a session from the beginning."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._waiting: list[Received] = []
        self._next_ids: dict[int, int] = {}  # by channel: the next delivery id
        self._rest = b""

    @classmethod
    async def connect(cls, port: int, container: str = "client") -> "RawAmqp":
        """Return a client whose connection is open."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        client = cls(reader, writer)
        writer.write(HEADER)
        client.say(0, Open(container).encode())
        assert await asyncio.wait_for(reader.readexactly(8), DEADLINE_S) == HEADER
        await client.awaited(OPEN)
        await client.begin(0)
        return client

    def say(self, channel: int, performative: bytes, payload: bytes = b"") -> None:
        self._writer.write(frame(channel, performative + payload))

    async def begin(self, channel: int) -> None:
        self._next_ids[channel] = 0
        self.say(channel, Begin(next_outgoing_id=0, incoming_window=10_000, outgoing_window=10_000).encode())
        await self.awaited(BEGIN)

    # --- links ---

    async def attach(
        self,
        name: str,
        handle: int,
        *,
        source: Source | None = None,
        target: Target | Coordinator | None = None,
        is_receiver: bool = False,
        unsettled: AmqpMap | None = None,
        incomplete: bool = False,
        rcv_second: bool = False,
        channel: int = 0,
    ) -> Attach:
        """Attach a link and return the answer, which has a terminus: it is not refused."""
        asked = Attach(
            name,
            handle=handle,
            is_receiver=is_receiver,
            source=source or Source(None),
            target=target or Target(None),
            unsettled=unsettled,
            incomplete_unsettled=incomplete,
            receiver_settle_mode=1 if rcv_second else 0,
            initial_delivery_count=-1 if is_receiver else 0,
        )
        self.say(channel, asked.encode())
        answer = read_attach((await self.awaited(ATTACH)).fields)
        assert (answer.source if is_receiver else answer.target) is not None, "the link was refused"
        return answer

    async def sender(self, name: str, handle: int, address: str, *, channel: int = 0) -> Attach:
        """Attach a sender, and wait for its credit."""
        answer = await self.attach(name, handle, target=Target(address), channel=channel)
        await self.awaited(FLOW)
        return answer

    async def coordinator(
        self, handle: int, *, outcomes: list[str] | None = None, name: str = "coordinator", channel: int = 0
    ) -> Attach:
        """Attach to the coordinator, and wait for the credit."""
        answer = await self.attach(
            name, handle, source=Source(None, outcomes=outcomes), target=Coordinator([]), channel=channel
        )
        await self.awaited(FLOW)
        return answer

    async def receiver(self, name: str, handle: int, address: str, *, credit: int = CREDIT, channel: int = 0) -> None:
        await self.attach(name, handle, source=Source(address), is_receiver=True, channel=channel)
        self.credit(handle, credit, channel=channel)

    def credit(
        self, handle: int, credit: int, *, count: int = 0, channel: int = 0, properties: AmqpMap | None = None
    ) -> None:
        flow = Flow(next_incoming_id=0, incoming_window=10_000, next_outgoing_id=0, outgoing_window=10_000)
        flow.handle, flow.delivery_count, flow.link_credit, flow.properties = handle, count, credit, properties
        self.say(channel, flow.encode())

    async def detach(self, handle: int, *, closed: bool, channel: int = 0) -> None:
        self.say(channel, Detach(handle, closed=closed).encode())
        await self.awaited(DETACH)

    async def end(self, channel: int) -> None:
        self.say(channel, encode_ending(END, None))
        await self.awaited(END)

    async def is_detached(self, condition: str) -> None:
        """The broker detaches a link for this reason; it is answered."""
        found = await self.awaited(DETACH)
        error = read_error(found.fields[2])
        assert error is not None
        assert error.condition == condition, error
        self.say(found.channel, Detach(found.number(0), closed=True).encode())

    # --- messages ---

    def send(
        self,
        handle: int,
        payload: bytes,
        *,
        state: DeliveryState | None = None,
        settled: bool = False,
        tag: bytes | None = None,
        resume: bool = False,
        channel: int = 0,
    ) -> int:
        """Send one message in one frame; return its delivery id."""
        delivery_id = self._next_ids[channel]
        self._next_ids[channel] = delivery_id + 1
        fields: Sequence[AmqpValue] = [
            uint(handle),
            uint(delivery_id),
            tag if tag is not None else b"%d" % delivery_id,
            uint(0),
            settled,
            False,
            None,
        ]
        described = b"" if state is None else state.encode()
        self.say(channel, _transfer(fields, described, resume=resume), payload)
        return delivery_id

    async def outcome(self, delivery_id: int, *, channel: int = 0) -> DeliveryState:
        """Return the outcome of what was sent: that of its disposition, whose other ids wait for their own reader."""

        def speaks_of_it(found: Received) -> bool:
            if found.code != DISPOSITION or found.channel != channel or found.fields[0] is not True:
                return False
            last = found.number(1) if found.fields[2] is None else found.number(2)
            return found.number(1) <= delivery_id <= last

        found = await self._first(speaks_of_it, f"the outcome of delivery {delivery_id}", keeps=True)
        assert found.fields[3] is True, "an outcome of ours is settled"
        return found.state(4)

    async def message(self, *, channel: int = 0) -> Message:
        """Return the next message."""
        found = await self._first(lambda each: each.code == TRANSFER and each.channel == channel, "a message")
        tag = found.fields[2]
        assert isinstance(tag, bytes)
        sections = _sections(found.payload)
        header = sections.get(0x70)
        count = header[4] if isinstance(header, list) and len(header) > 4 else None
        assert count is None or isinstance(count, Scalar)
        tried = 0 if count is None else count.value
        assert isinstance(tried, int)
        return Message(found.number(1), tag, sections.get(0x77, sections.get(0x75)), tried, found)

    async def messages(self, count: int) -> list[Message]:
        return [await self.message() for _ in range(count)]

    def dispose(
        self, first: int, last: int, state: DeliveryState | None, *, settled: bool = True, channel: int = 0
    ) -> None:
        """Say the outcome of what was received."""
        fields = encode_composite(DISPOSITION, [True, uint(first), uint(last), settled])
        described = b"" if state is None else state.encode()
        body_ = fields[6:] if fields[3] == 0xC0 else fields[12:]
        count = 4 if state is None else 5
        joined = body_ + described
        head = b"\x00\x53\x15\xd0" + (len(joined) + 4).to_bytes(4, "big") + count.to_bytes(4, "big")
        self.say(channel, head + joined)

    async def said_of(self, delivery_id: int, *, channel: int = 0) -> tuple[DeliveryState, bool]:
        """Return what the broker says of a delivery to the client: its state, and whether it is settled."""

        def speaks_of_it(found: Received) -> bool:
            return (
                found.code == DISPOSITION
                and found.channel == channel
                and found.fields[0] is False
                and found.number(1) <= delivery_id <= (found.number(1) if found.fields[2] is None else found.number(2))
            )

        found = await self._first(speaks_of_it, f"a disposition of delivery {delivery_id}")
        return found.state(4), found.fields[3] is True

    # --- transactions ---

    async def declare(self, handle: int, *, channel: int = 0) -> bytes:
        """Declare a transaction; return its id."""
        delivery_id = self.send(handle, body(Described(ulong(0x31), [])), channel=channel)
        state = await self.outcome(delivery_id, channel=channel)
        assert state.txn_id, state
        return state.txn_id

    def ask_discharge(self, handle: int, txn_id: bytes, *, fail: bool = False, channel: int = 0) -> int:
        """Discharge a transaction; return the delivery id of the request."""
        return self.send(handle, body(Described(ulong(0x32), [txn_id, fail])), channel=channel)

    async def discharge(self, handle: int, txn_id: bytes, *, fail: bool = False, channel: int = 0) -> DeliveryState:
        """Discharge a transaction; return the outcome."""
        return await self.outcome(self.ask_discharge(handle, txn_id, fail=fail, channel=channel), channel=channel)

    # --- hearing ---

    async def awaited(self, code: int) -> Received:
        """Return the next frame of a kind; what comes before it waits for its own reader."""
        return await self._first(lambda each: each.code == code, f"performative {code:#x}")

    async def round_trip(self, *, channel: int = 0) -> None:
        """Wait until the broker has read everything said so far."""
        flow = Flow(next_incoming_id=0, incoming_window=10_000, next_outgoing_id=0, outgoing_window=10_000)
        flow.echo = True
        self.say(channel, flow.encode())
        await self._first(
            lambda each: each.code == FLOW and (len(each.fields) < 5 or each.fields[4] is None), "an echo"
        )

    def nothing_waits(self, code: int) -> bool:
        """Return whether no frame of a kind has come that nobody asked for."""
        return not any(each.code == code for each in self._waiting)

    async def close(self) -> None:
        """Close in good order."""
        self.say(0, encode_ending(CLOSE, None))
        await self.awaited(CLOSE)
        await self.vanish()

    async def vanish(self) -> None:
        """Close the socket without a word."""
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    async def _first(self, fits: Callable[[Received], bool], what: str, *, keeps: bool = False) -> Received:
        index = 0
        while True:
            while index < len(self._waiting):
                found = self._waiting[index]
                if fits(found):
                    if not keeps:
                        del self._waiting[index]
                    return found
                index += 1
            try:
                await asyncio.wait_for(self._read(), DEADLINE_S)
            except TimeoutError:
                raise AssertionError(f"{what} did not come within {DEADLINE_S} s") from None

    async def _read(self) -> None:
        head = await self._reader.readexactly(8)
        rest = await self._reader.readexactly(int.from_bytes(head[:4], "big") - 8)
        if not rest:
            return  # a heartbeat
        value, end = decode(rest, 0, len(rest))
        assert isinstance(value, Described)
        assert isinstance(value.descriptor, Scalar)
        assert isinstance(value.descriptor.value, int)
        assert isinstance(value.value, list)
        fields = value.value + [None] * (14 - len(value.value))
        self._waiting.append(Received(int.from_bytes(head[6:8], "big"), value.descriptor.value, fields, rest[end:]))


class AmqpClients:
    """The AMQP clients of one broker."""

    def __init__(self, broker: RunningBroker) -> None:
        self._broker = broker
        self._clients: list[RawAmqp] = []

    async def connect(self, container: str = "client") -> RawAmqp:
        """Return a client whose connection is open."""
        client = await RawAmqp.connect(self._broker.node.amqp.listeners["amqp"].port, container)
        self._clients.append(client)
        return client

    async def all_vanish(self) -> None:
        """Close every socket that is still open."""
        for client in self._clients:
            await client.vanish()


def _transfer(fields: Sequence[AmqpValue], state: bytes, *, resume: bool) -> bytes:
    encoded = b"".join([encode(each) for each in fields]) + (state or b"\x40") + encode(resume)
    return b"\x00\x53\x14\xd0" + (len(encoded) + 4).to_bytes(4, "big") + (9).to_bytes(4, "big") + encoded


def _sections(payload: bytes) -> dict[int, AmqpValue]:
    found: dict[int, AmqpValue] = {}
    pos = 0
    while pos < len(payload):
        value, pos = decode(payload, pos, len(payload))
        assert isinstance(value, Described)
        assert isinstance(value.descriptor, Scalar)
        assert isinstance(value.descriptor.value, int)
        found[value.descriptor.value] = value.value
    return found
