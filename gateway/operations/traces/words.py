"""What a trace shows of one packet or frame, and what reads the packets of one direction of a connection."""

from dataclasses import dataclass, field
from typing import Final, Protocol

BODY_BYTES_MAX: Final = 64 * 1024  # of each packet, that is looked at
LENGTH_BYTES: Final = 4
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


class PacketsRead(Protocol):
    """The packets of one direction of a connection."""

    def read(self, data: bytes) -> list[tuple[PacketWords, int]]:
        """Return the packets that are known by now, each with its size in bytes."""


def hidden(data: bytes) -> str:
    """Return what is shown in the place of a secret."""
    return f"{len(data)} bytes, not shown"


class FrameCutter:
    """Cuts one direction of a connection into frames that begin with a length of four bytes.

    It keeps no more than the first `BODY_BYTES_MAX` bytes of one.
    """

    def __init__(self, uncounted_bytes: int) -> None:
        """`uncounted_bytes` of each frame are not in its length."""
        self._uncounted_bytes = uncounted_bytes
        self._rest = bytearray()
        self._to_skip = 0  # bytes of a frame whose beginning is cut off already

    def cut(self, data: bytes) -> list[tuple[bytes, int]]:
        """Return each frame that is known by now, or its beginning if it is long, with its size."""
        found: list[tuple[bytes, int]] = []
        skipped = min(self._to_skip, len(data))
        self._to_skip -= skipped
        self._rest += data[skipped:]
        while len(self._rest) >= LENGTH_BYTES:
            size = self._uncounted_bytes + int.from_bytes(self._rest[:LENGTH_BYTES], "big")
            if len(self._rest) < min(size, BODY_BYTES_MAX):
                break
            kept = max(LENGTH_BYTES, min(size, len(self._rest)))
            found.append((bytes(self._rest[: min(kept, BODY_BYTES_MAX)]), size))
            self._to_skip = max(0, size - kept)
            del self._rest[:kept]
        return found
