"""What a turn has to say to one peer, as the few buffers that are cheapest to write."""

from typing import Final

from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.transport.interface import ByteTransport

LARGE_BYTES: Final = 64 * 1024  # to copy as much costs more than a write of its own
_LOOKED_AT: Final = 64  # pieces: where more came in one turn they are mostly small, and to look costs each of them


def write_gathered(transport: ByteTransport, pieces: list[bytes], counters: ProtocolCounters) -> None:
    """Write all pieces, in order, and count their bytes as sent."""
    buffers = gathered(pieces)
    counters.bytes_sent += sum([len(each) for each in buffers])
    if len(buffers) == 1:
        transport.write(buffers[0])
    elif buffers:
        transport.write_all(buffers)


def gathered(pieces: list[bytes]) -> list[bytes]:
    """Return buffers that make up `pieces`, in order: small ones joined, large ones as they are. None for no pieces."""
    count = len(pieces)
    if count < 2:
        return pieces
    if count > _LOOKED_AT:
        return [b"".join(pieces)]
    buffers: list[bytes] = []
    begun = 0
    for index in range(count):
        if len(pieces[index]) >= LARGE_BYTES:
            if begun < index:
                buffers.append(b"".join(pieces[begun:index]))
            buffers.append(pieces[index])
            begun = index + 1
    if begun == 0:
        return [b"".join(pieces)]
    if begun < count:
        buffers.append(b"".join(pieces[begun:]))
    return buffers
