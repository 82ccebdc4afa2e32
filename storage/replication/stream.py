"""What the replicated log asks of the servers that keep it, and what they answer."""

from typing import Final, NamedTuple, Protocol

from sluicegate.storage.errors import StorageError
from sluicegate.storage.replication.replica import Append

READ_BYTES: Final = 8 << 20


class StreamUnavailable(StorageError):
    """No answer came: what was asked may have been done, or may still be done."""


class StreamRefused(StorageError):
    """The servers refuse a request for a reason that does not pass by itself."""


class StreamFull(StreamRefused):
    """The stream has the size that its configuration allows, so nothing was stored."""


class Bounds(NamedTuple):
    """Which messages a stream has."""

    first: int  # sequence of the first that can be read; `last` + 1 when there is none
    last: int  # 0 when nothing was stored yet
    byte_count: int


class StoredMessage(NamedTuple):
    """A message of the stream and its sequence."""

    sequence: int
    data: bytes


class Stream(Protocol):
    """A stream that a majority of servers stores. Each call may raise StreamUnavailable and StreamRefused."""

    async def append(self, append: Append) -> int | None:
        """Append a message; return its sequence, None when the stream does not end where it expects.

        Neither an error but StreamFull nor None says that it is not stored, or will not be: see
        `storage.replication.replica`.
        """

    async def at(self, sequence: int) -> bytes | None:
        """Return the message at a sequence as the leader has it, None when there is none."""

    async def bounds(self) -> Bounds:
        """Return what the stream has, as the leader knows it."""

    async def read(self, after: int, wait_s: float) -> list[StoredMessage]:
        """Return messages from sequence `after` + 1 on, READ_BYTES of them or a little more.

        Without any, wait for one so many seconds. They follow each other, except for the first when the stream was
        trimmed.
        """

    async def trim(self, before: int) -> None:
        """Delete the messages before a sequence. One that comes late deletes nothing else."""
