"""An AMQP client on a raw socket, for whole-broker tests: it sends the frames a test tells it, and shows what comes.

Frames are written and read with the gateway's own codec, which tests with proton hold to the standard. Nothing is
granted, settled or answered unless the test says so. Every wait has a deadline; nothing sleeps.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

from protocols.amqp.decoding import read_fields
from protocols.amqp.dispositions import Disposition, disposition_bytes, read_disposition
from protocols.amqp.frames import frame
from protocols.amqp.outcomes import ACCEPTED_STATE, AmqpError, DeliveryState
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
    read_begin,
    read_detach,
    read_ending,
    read_flow,
    read_open,
)
from protocols.amqp.termini import Source, Target
from protocols.amqp.transfers import first_transfer, handle_bytes, read_transfer, transfer_lead
from protocols.amqp.values import AmqpMap, AmqpValue

DEADLINE_S: Final = 20.0
AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
INCOMING_WINDOW: Final = 100_000
LEAD: Final = transfer_lead(0)


class Received:
    """A delivery, whole: the test's messages fit into a frame."""

    def __init__(self, handle: int, delivery_id: int, tag: bytes, settled: bool, message: bytes) -> None:
        self.handle = handle
        self.delivery_id = delivery_id
        self.tag = tag
        self.settled = settled
        self.message = message

    @property
    def payload(self) -> bytes:
        """The body, of a message whose body is one short data section at its end."""
        return self.message[self.message.rindex(b"\x00\x53\x75\xa0") + 5 :]

    def __repr__(self) -> str:
        return f"Received({self.handle}, id={self.delivery_id}, {self.message[-20:]!r})"


class Ended:
    """An end or a close."""

    def __init__(self, code: int, error: AmqpError | None) -> None:
        self.code = code
        self.error = error


Heard = Open | Begin | Attach | Flow | Received | Disposition | Detach | Ended
Kind = TypeVar("Kind", Open, Begin, Attach, Flow, Received, Disposition, Detach, Ended)


class AmqpClient:
    """One client's socket, with one session on channel 0."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._heard: deque[Heard] = deque()
        self._received_count = 0
        self._unconfirmed: set[int] = set()
        self.sent_count = 0

    @classmethod
    async def open(
        cls, port: int, container: str = "c", *, desired: list[str] | None = None, window: int = INCOMING_WINDOW
    ) -> "AmqpClient":
        """Connect, and open a session."""
        client = cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 22))
        client._writer.write(AMQP_HEADER)
        client.send(Open(container, desired=desired).encode())
        client.send(Begin(next_outgoing_id=0, incoming_window=window, outgoing_window=1000).encode())
        assert await asyncio.wait_for(client._reader.readexactly(8), DEADLINE_S) == AMQP_HEADER
        return client

    # --- saying ---

    def send(self, performative: bytes) -> None:
        """Write a frame."""
        self._writer.write(frame(0, performative))

    async def receiver(
        self,
        name: str,
        source: Source | str | None,
        *,
        handle: int = 0,
        credit: int = 0,
        settled: bool = False,
        rcv_second: bool = False,
        desired: list[str] | None = None,
        properties: AmqpMap | None = None,
    ) -> Attach:
        """Attach a link to receive on; return the broker's attach."""
        asked = Attach(
            name,
            handle=handle,
            is_receiver=True,
            sender_settle_mode=1 if settled else 0,
            receiver_settle_mode=1 if rcv_second else 0,
            source=Source(source) if isinstance(source, str) else source,
            target=Target("here"),
            desired=desired,
            properties=properties,
        )
        self.send(asked.encode())
        answer = await self.awaited(Attach)
        if credit:
            self.flow(handle, credit)
        return answer

    async def sender(self, name: str, target: Target | str, *, handle: int = 9) -> Attach:
        """Attach a link to send on; return the broker's attach."""
        asked = Attach(
            name,
            handle=handle,
            is_receiver=False,
            source=Source("here"),
            target=Target(target) if isinstance(target, str) else target,
            initial_delivery_count=0,
        )
        self.send(asked.encode())
        return await self.awaited(Attach)

    def flow(
        self,
        handle: int,
        credit: int,
        *,
        delivery_count: int = 0,
        drain: bool = False,
        echo: bool = False,
        window: int = INCOMING_WINDOW,
    ) -> None:
        """Grant credit on a link."""
        said = Flow(
            next_incoming_id=self._received_count,
            incoming_window=window,
            next_outgoing_id=self.sent_count,
            outgoing_window=1000,
            handle=handle,
            delivery_count=delivery_count,
            link_credit=credit,
            drain=drain,
            echo=echo,
        )
        self.send(said.encode())

    def transfer(self, handle: int, message: bytes, *, settled: bool = False) -> int:
        """Send a message; return its delivery id."""
        delivery_id = self.sent_count
        self.sent_count += 1
        tag = delivery_id.to_bytes(4, "big")
        head = first_transfer(
            LEAD, handle_bytes(handle), delivery_id, tag, 0, settled=settled, more=False, room=len(message)
        )
        self._writer.write(head + message)
        if not settled:
            self._unconfirmed.add(delivery_id)
        return delivery_id

    def settle(
        self, first: int, last: int | None = None, state: DeliveryState | None = ACCEPTED_STATE, *, settled: bool = True
    ) -> None:
        """Say what became of deliveries."""
        last = first if last is None else last
        self.send(disposition_bytes(is_receiver=True, first=first, last=last, settled=settled, state=state))

    def detach(self, handle: int, *, closed: bool = True) -> None:
        self.send(Detach(handle, closed=closed).encode())

    def end_session(self) -> None:
        self.send(encode_ending(END, None))

    async def close(self) -> None:
        """Close the connection in good order."""
        self.send(encode_ending(CLOSE, None))
        while (await self.awaited(Ended)).code != CLOSE:
            pass
        self._writer.close()

    def vanish(self) -> None:
        """Be gone without a word."""
        self._writer.transport.abort()

    # --- hearing ---

    async def awaited(self, kind: type[Kind]) -> Kind:
        """Return the oldest frame of a kind, those of other kinds are kept."""
        for each in self._heard:
            if isinstance(each, kind):
                self._heard.remove(each)
                return each
        while True:
            heard = await self._read()
            if isinstance(heard, kind):
                return heard
            self._heard.append(heard)

    async def heard(self) -> Heard:
        """Return the next frame, of whatever kind."""
        return self._heard.popleft() if self._heard else await self._read()

    async def deliveries(self, count: int) -> list[Received]:
        """Return the next deliveries."""
        return [await self.awaited(Received) for _ in range(count)]

    async def confirmed(self) -> None:
        """Wait until every message sent on here has its outcome."""
        while self._unconfirmed:
            answer = await self.awaited(Disposition)
            self._unconfirmed -= set(range(answer.first, answer.last + 1))

    async def until_flow(self, handle: int, *, drain: bool = True) -> tuple[list[Received], Flow]:
        """Return everything delivered before the broker's next flow on a link that gives credit back, and the flow."""
        before: list[Received] = []
        while True:
            heard = self._heard.popleft() if self._heard else await self._read()
            if isinstance(heard, Received):
                before.append(heard)
            elif isinstance(heard, Flow) and heard.handle == handle and heard.drain == drain:
                return before, heard

    async def is_quiet(self, window: int = INCOMING_WINDOW) -> None:
        """Check that nothing has come, over a few round trips: what was under way has had its turn."""
        said = Flow(
            next_incoming_id=self._received_count,
            incoming_window=window,
            next_outgoing_id=self.sent_count,
            outgoing_window=1000,
            echo=True,
        )
        for _ in range(3):
            self.send(said.encode())
            await self.awaited(Flow)
        assert not [each for each in self._heard if not isinstance(each, (Flow, Open, Begin))]

    async def _read(self) -> Heard:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                size = int.from_bytes(await self._reader.readexactly(4), "big")
                body = (await self._reader.readexactly(size - 4))[4:]
                if body:  # else a heartbeat
                    return self._understood(body)

    def _understood(self, body: bytes) -> Heard:
        assert body[:2] == b"\x00\x53"
        code = body[2]
        if code == TRANSFER:
            self._received_count += 1
            transfer = read_transfer(body, 3, len(body))
            assert not transfer.more
            tag = transfer.tag or b""
            return Received(transfer.handle, transfer.delivery_id, tag, transfer.settled, body[transfer.payload_at :])
        if code == DISPOSITION:
            return read_disposition(body, 3, len(body))
        items = read_fields(body, 3, len(body))
        if code in (END, CLOSE):
            return Ended(code, read_ending(items))
        readers: dict[int, Callable[[list[AmqpValue]], Heard]] = {
            OPEN: read_open,
            BEGIN: read_begin,
            ATTACH: read_attach,
            FLOW: read_flow,
            DETACH: read_detach,
        }
        return readers[code](items)
