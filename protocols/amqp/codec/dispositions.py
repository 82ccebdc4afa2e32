"""The disposition performative (2.7.6), read field by field and written in runs.

Outcomes of neighbouring deliveries become one frame: a client that settles 500 messages of one read sends one
disposition.
"""

from typing import Final, final

from sluicegate.protocols.amqp.codec.delivery_states import DeliveryState, read_state
from sluicegate.protocols.amqp.types.decoding import decode_list
from sluicegate.protocols.amqp.types.errors import DecodeError
from sluicegate.protocols.amqp.types.fields import Fields

SERIAL_MASK: Final = 0xFFFF_FFFF


@final
class Disposition:
    """What the peer says of the deliveries `first` to `last`, both included."""

    __slots__ = ("first", "is_receiver", "last", "settled", "state")

    def __init__(self, *, is_receiver: bool, first: int, last: int, settled: bool, state: DeliveryState | None) -> None:
        self.is_receiver = is_receiver  # the sender's role: true settles what it received
        self.first = first
        self.last = last
        self.settled = settled
        self.state = state

    def __repr__(self) -> str:
        return f"Disposition({self.first}..{self.last}, settled={self.settled}, {self.state!r})"


def read_disposition(data: bytes, pos: int, end: int) -> Disposition:
    """Return the disposition whose list begins at `pos`. Raises DecodeError."""
    items, stop = decode_list(data, pos, end)
    if stop != end:
        raise DecodeError(f"{end - stop} bytes behind a disposition")
    fields = Fields("disposition", items)
    first = fields.uint_required(1, "first")
    state = items[4] if len(items) > 4 else None
    return Disposition(
        is_receiver=fields.flag_required(0, "role"),
        first=first,
        last=fields.uint(2, "last", first),
        settled=fields.flag(3, "settled", default=False),
        state=read_state(state),
    )


def disposition_bytes(*, is_receiver: bool, first: int, last: int, settled: bool, state: DeliveryState | None) -> bytes:
    """Return the performative."""
    body = b"".join(
        (
            b"\x41" if is_receiver else b"\x42",
            _uint(first),
            b"\x40" if first == last else _uint(last),
            b"\x41" if settled else b"\x42",
            b"\x40" if state is None else state.encode(),
            b"\x40",  # batchable; every field has its place, as in `encode_performative`
        )
    )
    if len(body) <= 0xFE:
        return bytes((0x00, 0x53, 0x15, 0xC0, len(body) + 1, 6)) + body
    return b"\x00\x53\x15\xd0" + (len(body) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x06" + body


@final
class DispositionRuns:
    """Outcomes that wait for the end of the turn. A neighbour with the same state lengthens the last run.

    `settle` takes delivery ids in any order. What has to be sent is in the order in which the runs were begun.
    """

    def __init__(self) -> None:
        self._runs: list[Disposition] = []

    def add(self, first: int, last: int, state: DeliveryState | None, *, is_receiver: bool, settled: bool) -> None:
        """Note an outcome."""
        runs = self._runs
        if runs:
            run = runs[-1]
            if (
                run.state is state
                and run.settled == settled
                and run.is_receiver == is_receiver
                and (run.last + 1) & SERIAL_MASK == first
            ):
                run.last = last
                return
        runs.append(Disposition(is_receiver=is_receiver, first=first, last=last, settled=settled, state=state))

    def take(self) -> list[Disposition]:
        """Return the runs, and begin anew."""
        runs = self._runs
        if runs:
            self._runs = []
        return runs


def _uint(value: int) -> bytes:
    if value == 0:
        return b"\x43"
    if value <= 0xFF:
        return bytes((0x52, value))
    return b"\x70" + value.to_bytes(4, "big")
