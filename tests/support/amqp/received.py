"""What an AMQP client on a raw socket receives: frames as performatives, and whole deliveries."""

from collections.abc import Callable
from typing import TypeVar

from sluicegate.protocols.amqp.codec.delivery_states import AmqpError
from sluicegate.protocols.amqp.codec.dispositions import Disposition, read_disposition
from sluicegate.protocols.amqp.codec.performatives import (
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
    read_attach,
    read_begin,
    read_detach,
    read_ending,
    read_flow,
    read_open,
)
from sluicegate.protocols.amqp.codec.transfers import Transfer, read_transfer
from sluicegate.protocols.amqp.types.decoding import decode, read_fields
from sluicegate.protocols.amqp.types.values import AmqpValue, Described, Scalar

HEADER = 0x70
DATA = 0x75
VALUE = 0x77


class Received:
    """A delivery, whole: the test's messages fit into a frame."""

    def __init__(self, transfer: Transfer, message: bytes) -> None:
        self.handle = transfer.handle
        self.delivery_id = transfer.delivery_id
        self.tag = transfer.tag or b""
        self.settled = transfer.settled
        self.is_resumed = transfer.resume  # the client has it from an earlier time of the link
        self.message = message

    @property
    def payload(self) -> bytes:
        """The body, of a message whose body is one short data section at its end."""
        return self.message[self.message.rindex(b"\x00\x53\x75\xa0") + 5 :]

    @property
    def body(self) -> AmqpValue:
        """The value of an amqp-value, or the bytes of data."""
        sections = self.sections()
        return sections.get(VALUE, sections.get(DATA))

    @property
    def delivery_count(self) -> int:
        """How often it was tried before."""
        header = self.sections().get(HEADER)
        count = header[4] if isinstance(header, list) and len(header) > 4 else None
        assert count is None or isinstance(count, Scalar)
        tried = 0 if count is None else count.value
        assert isinstance(tried, int)
        return tried

    def sections(self) -> dict[int, AmqpValue]:
        """Return the sections by their descriptors."""
        found: dict[int, AmqpValue] = {}
        pos = 0
        while pos < len(self.message):
            value, pos = decode(self.message, pos, len(self.message))
            assert isinstance(value, Described)
            assert isinstance(value.descriptor, Scalar)
            assert isinstance(value.descriptor.value, int)
            found[value.descriptor.value] = value.value
        return found

    def __repr__(self) -> str:
        return f"Received({self.handle}, id={self.delivery_id}, {self.message[-20:]!r})"


class Ended:
    """An end or a close."""

    def __init__(self, code: int, error: AmqpError | None) -> None:
        self.code = code
        self.error = error


Heard = Open | Begin | Attach | Flow | Received | Disposition | Detach | Ended
Kind = TypeVar("Kind", Open, Begin, Attach, Flow, Received, Disposition, Detach, Ended)

READERS: dict[int, Callable[[list[AmqpValue]], Heard]] = {
    OPEN: read_open,
    BEGIN: read_begin,
    ATTACH: read_attach,
    FLOW: read_flow,
    DETACH: read_detach,
}


def understood(body: bytes) -> Heard:
    """Return the content of a frame's body."""
    assert body[:2] == b"\x00\x53"
    code = body[2]
    if code == TRANSFER:
        transfer = read_transfer(body, 3, len(body))
        assert not transfer.more
        return Received(transfer, body[transfer.payload_at :])
    if code == DISPOSITION:
        return read_disposition(body, 3, len(body))
    items = read_fields(body, 3, len(body))
    if code in (END, CLOSE):
        return Ended(code, read_ending(items))
    return READERS[code](items)
