"""What a trace shows of one packet or frame, and what reads the packets of one direction of a connection.

A packet that nobody has read yet is kept, so what is kept of one is bounded: see `bounded_fields` and its like.
"""

from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Protocol

from sluicegate.gateway.operations.traces.exchanges import Exchange

BODY_BYTES_MAX: Final = 64 * 1024  # of each packet, that is looked at
LENGTH_BYTES: Final = 4
TEXT_CHARS_MAX: Final = 4096  # of the fields of a packet, of its properties, and of its reason
ENTRIES_MAX: Final = 256  # fields of a packet, and properties
CUT: Final = "…"  # at the end of a text of which there is more
MORE: Final = "not_shown"  # the name under which what is left out is counted
EXACT_MAX: Final = 2**53 - 1  # RFC 7493: programs that read JSON, browsers among them, round larger integers
Value = str | int | bool | None


@dataclass(slots=True)
class PacketWords:
    """A packet in words."""

    kind: str
    fields: dict[str, Value] = field(default_factory=dict)
    properties: list[tuple[str, str | int]] = field(default_factory=list)
    reason_code: int | None = None
    reason: str | None = None
    payload: bytes | None = None
    exchange: Exchange | None = None  # of HTTP, if it is known to which one the packet belongs


class PacketsRead(Protocol):
    """The packets of one direction of a connection."""

    def read(self, data: bytes) -> list[tuple[PacketWords, int]]:
        """Return the packets that are known by now, each with its size in bytes."""


def bounded_fields(fields: dict[str, Value]) -> dict[str, Value]:
    """Return the first fields, with long texts cut. Their names are those of the protocol, and short."""
    found: dict[str, Value] = {}
    left = TEXT_CHARS_MAX
    for name, value in islice(fields.items(), ENTRIES_MAX):
        found[name] = value if value is None else _bounded(value, left)
        left = max(0, left - _length(value))
    if len(fields) > ENTRIES_MAX:
        found[MORE] = f"{len(fields) - ENTRIES_MAX} more"
    return found


def bounded_properties(properties: list[tuple[str, str | int]]) -> tuple[tuple[str, str | int], ...]:
    """Return the first properties, with long names and texts cut."""
    found: list[tuple[str, str | int]] = []
    left = TEXT_CHARS_MAX
    for name, value in properties:
        if left == 0 or len(found) == ENTRIES_MAX:
            found.append((MORE, f"{len(properties) - len(found)} more"))
            break
        for_value = max(0, left - len(name))
        found.append((bounded_text(name, left), _bounded(value, for_value)))
        left = max(0, for_value - _length(value))
    return tuple(found)


def bounded_text(text: str, chars_max: int = TEXT_CHARS_MAX) -> str:
    """Return a text, or its beginning with a mark."""
    return text if len(text) <= chars_max else text[:chars_max] + CUT


def _bounded(value: str | int, chars_max: int) -> str | int:
    if isinstance(value, str):
        return bounded_text(value, chars_max)
    return value if abs(value) <= EXACT_MAX else str(value)


def _length(value: Value) -> int:
    return len(value) if isinstance(value, str) else 0


def hidden(data: bytes) -> str:
    """Return what is shown in the place of a secret."""
    return f"{len(data)} bytes, not shown"


class FrameCutter:
    """Cuts one direction of a connection into frames that begin with a length of four bytes.

    It keeps no more than the first `BODY_BYTES_MAX` bytes of one.
    """

    def __init__(self, uncounted_bytes: int, *, header: bytes = b"", header_bytes: int = 0) -> None:
        """`uncounted_bytes` of each frame are not in its length.

        What begins with `header`, which is the length of no frame, has `header_bytes`, and is returned like a frame.
        """
        self._uncounted_bytes = uncounted_bytes
        self._header = header
        self._header_bytes = header_bytes
        self._rest = bytearray()
        self._to_skip = 0  # bytes of a frame whose beginning is cut off already

    def cut(self, data: bytes) -> list[tuple[bytes, int]]:
        """Return each frame that is known by now, or its beginning if it is long, with its size."""
        found: list[tuple[bytes, int]] = []
        skipped = min(self._to_skip, len(data))
        self._to_skip -= skipped
        self._rest += data[skipped:]
        while len(self._rest) >= LENGTH_BYTES:
            if self._header and self._rest.startswith(self._header):
                size = self._header_bytes
            else:
                size = self._uncounted_bytes + int.from_bytes(self._rest[:LENGTH_BYTES], "big")
            if len(self._rest) < min(size, BODY_BYTES_MAX):
                break
            kept = max(LENGTH_BYTES, min(size, len(self._rest)))
            found.append((bytes(self._rest[: min(kept, BODY_BYTES_MAX)]), size))
            self._to_skip = max(0, size - kept)
            del self._rest[:kept]
        return found
