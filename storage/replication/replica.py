"""A replica of a broker, and the log that it shares with the others: which records count, and what the owner may say.

The log is a stream of messages (`storage.replication.messages`) that servers store in one order. Each append names the
sequence behind which it belongs, so of two owners one is refused. That is not all that is relied on: each message names
the one before it by its hash, and what does not fit is void for every reader. So all replicas have the same records in
the same order, whatever the servers let in.

An append has three outcomes. It is stored: an answer says that it has the place it was sent for, or the leader has its
bytes there. It cannot be stored: the leader has something else at that place. Or nobody knows: no answer came, or a
refusal, which may be that of a copy of it. Then the same bytes are sent for the same place again, until one of the
others is so. To look whether it is there decides nothing, for a copy may still be under way.

No clock decides. The key says who may try to take over, and its revision is the epoch. Whoever took it reads the log to
its end and appends an epoch message; the owner is who reads back its own.

This is the pure part: it sends nothing, and is told what came. Its methods have the names of the actions in the model,
`tests/models/replicated_log`.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

from sluicegate.storage.errors import StorageError
from sluicegate.storage.replication.messages import (
    FIRST_PLACE,
    Begin,
    Epoch,
    Kind,
    Message,
    Place,
    chain_of,
    decode_begin,
    decode_epoch,
    decode_message,
    encode_begin,
    encode_epoch,
    encode_message,
    place_after,
    place_of,
)

PART_BYTES_MAX: Final = 512 << 10  # a server takes messages of 1 MiB, if nobody has changed that


class Role(Enum):
    """What a replica does."""

    STANDBY = "standby"  # it reads
    TAKING = "taking over"  # it has the key, and reads back its epoch message
    OWNER = "owner"  # it appends


class OwnershipLost(StorageError):
    """Another replica appends to the log: this one does so no more, and what it had not confirmed may be void."""


class EpochTooLow(StorageError):
    """The key was taken with a revision that is not above the epochs of the log."""


class LogMissing(StorageError):
    """The stream does not have what a replica has read from it, or has to read next."""


class Append(NamedTuple):
    """A message on its way to the stream."""

    expected: int  # sequence of the message before it
    data: bytes


class Record(NamedTuple):
    """A record that was read."""

    number: int  # sequence of its first message; records have ascending ones
    data: bytes  # see `storage.log.record`; empty when an owner only showed that it is one


class Replica:
    """The state of one replica. Sequences are those of the stream: the first message has 1."""

    def __init__(self, name: str, release: str) -> None:
        self.name = name
        self.role = Role.STANDBY
        self.epoch = 0  # with which it took the key
        self.begin: Begin | None = None  # what the stream says of itself
        self.owner: Epoch | None = None  # whose epoch message was read last
        self.owner_epoch = 0
        self.read_through = 0  # the sequence of the last message that was read or stored
        self.time_ms = 0  # of the log
        self.void_count = 0  # messages that were void
        self._release = release
        self._place: Place | None = FIRST_PLACE  # of the next message; None: the next one is taken as it is
        self._parts: list[bytes] = []
        self._parts_from = 0  # sequence of the first of them
        self._out: list[Append] = []  # appends of unknown outcome, oldest first
        self._stored: set[int] = set()  # sequences for which the answers to younger ones of them came

    # --- reading ---

    def resume(self, number: int) -> None:
        """Go on with a record that this replica has, and that is read again: by its hash the next ones fit."""
        self.read_through = number - 1
        self._place = FIRST_PLACE if number == 1 else None

    def read(self, sequence: int, data: bytes) -> Record | None:
        """Take the next message of the stream; return the record that ends with it.

        Raises LogMissing when it is not the next one, and UnsupportedFormat and DamagedRecord for a message that counts
        and cannot be read.
        """
        if sequence != self.read_through + 1:
            raise LogMissing(f"the stream goes on with {sequence}, and {self.read_through + 1} was not read yet")
        where = f"message {sequence} of the stream"
        message = self._decoded(data, where)
        self.read_through = sequence
        if message is None:
            self.void_count += 1
            return None
        return self._take(message, data, sequence, where)

    def _decoded(self, data: bytes, where: str) -> Message | None:
        if self._place is not None:
            return decode_message(data, self._place, where)
        return decode_message(data, place_of(data, where), where)

    def _take(self, message: Message, data: bytes, sequence: int, where: str) -> Record | None:
        """Apply a message that counts."""
        self._place = place_after(message, data)
        self.owner_epoch = message.epoch
        self.time_ms = max(self.time_ms, message.time_ms)
        match message.kind:
            case Kind.BEGIN:
                self.begin = decode_begin(message.content, where)
            case Kind.EPOCH:
                self._parts.clear()  # of a record that its owner did not finish
                self.owner = decode_epoch(message.content, where)
                if self.role is Role.TAKING and message.epoch >= self.epoch:
                    self._out.clear()
                    self.role = Role.OWNER if message.epoch == self.epoch else Role.STANDBY
            case Kind.PART:
                if not self._parts:
                    self._parts_from = sequence
                self._parts.append(message.content)
            case Kind.RECORD:
                number = self._parts_from if self._parts else sequence
                content = b"".join([*self._parts, message.content])
                self._parts.clear()
                return Record(number, content)
        return None

    # --- taking over ---

    def take_key(self, revision: int) -> None:
        """Try to take over: the key is this replica's, with that revision.

        Raises EpochTooLow when the log has an owner of a later one: what this replica writes would be void.
        """
        assert self.role is Role.STANDBY
        if revision <= self.owner_epoch:
            raise EpochTooLow(
                f"the log has an owner of epoch {self.owner_epoch}, and the key was taken with revision {revision}: "
                "its bucket was made anew"
            )
        self.epoch = revision
        self.role = Role.TAKING

    def append_epoch(self, end: int, time_ms: int) -> Append | None:
        """Return the epoch message to send, None when there is more to read. `end`: the leader's last sequence.

        An epoch message that was sent for an earlier place is not stored any more: that place is taken.
        """
        assert self.role is Role.TAKING
        if self._place is None or end > self.read_through:
            return None
        if self._out and self._out[0].expected == self.read_through:
            return self._out[0]
        place = Place(self.epoch, 0, self._place.chain)
        content = encode_epoch(Epoch(self.name, self._release))
        self._out = [Append(self.read_through, encode_message(Kind.EPOCH, place, self._later(time_ms), content))]
        return self._out[0]

    # --- appending ---

    def next_number(self) -> int:
        """Return the number of the next record: the place of its first message."""
        return self.read_through + 1

    def is_waiting(self) -> bool:
        """Return whether the outcome of an append is unknown."""
        return bool(self._out)

    def propose(self, record: bytes, time_ms: int) -> list[Append]:
        """Return the messages of the next record, in order. Each of them is sent; the next record waits for all."""
        assert self.role is Role.OWNER
        assert not self._out, "one record at a time"
        assert self._place is not None
        place = self._place
        time_ms = self._later(time_ms)
        expected = self.read_through
        for kind, content in _pieces(record):
            data = encode_message(kind, place, time_ms, content)
            self._out.append(Append(expected, data))
            place = Place(place.epoch, place.position + 1, chain_of(data))
            expected += 1
        return list(self._out)

    def retry(self) -> list[Append]:
        """Return what to send once more, the same bytes for the same places: all whose outcome is unknown."""
        return [each for each in self._out if each.expected + 1 not in self._stored]

    def confirm(self, append: Append, sequence: int) -> bool:
        """Take the answer that an append is stored at a sequence; return whether the whole record is.

        Only an answer for its own place counts.
        """
        if append in self._out and sequence == append.expected + 1:
            self._stored.add(sequence)
        while self._out and self._out[0].expected + 1 in self._stored:
            self._advance(self._out.pop(0))
        return not self._out

    def look(self, data: bytes | None) -> bool:
        """Take what the leader has at the place of the oldest append, None for nothing; return as `confirm` does.

        Raises OwnershipLost when it is another message: the replica is a standby from then on.
        """
        oldest = self._out[0]
        if data is None:
            return False
        if data == oldest.data:
            return self.confirm(oldest, oldest.expected + 1)
        self.step_down()
        raise OwnershipLost(f"another replica has written message {oldest.expected + 1} of the log")

    def withdraw(self) -> None:
        """Give the record up that was proposed: nothing of it is stored, or under way.

        So it is when its first message was sent once, and the answer was that the stream is full. Another copy could
        still be stored when there is room again.
        """
        assert self._out
        assert self._out[0].expected == self.read_through
        assert not self._parts, "a part of it is stored"
        self._out.clear()
        self._stored.clear()

    def oldest_place(self) -> int:
        """Return the sequence at which the oldest append would be."""
        return self._out[0].expected + 1

    def step_down(self) -> None:
        """Be a standby again. What is out may be stored or not; nobody was told."""
        self.role = Role.STANDBY
        self._out.clear()
        self._stored.clear()

    def _advance(self, append: Append) -> None:
        sequence = append.expected + 1
        self._stored.discard(sequence)
        assert self._place is not None
        message = decode_message(append.data, self._place, "what this replica wrote")
        assert message is not None
        self.read_through = sequence
        self._take(message, append.data, sequence, "what this replica wrote")

    def _later(self, time_ms: int) -> int:
        """Return the time of the next message: that of the log never goes back."""
        self.time_ms = max(self.time_ms, time_ms)
        return self.time_ms


def first_message(begin: Begin, time_ms: int) -> bytes:
    """Return the message with which a stream begins."""
    return encode_message(Kind.BEGIN, FIRST_PLACE, time_ms, encode_begin(begin))


def _pieces(record: bytes) -> Iterator[tuple[Kind, bytes]]:
    last = max(0, len(record) - 1) // PART_BYTES_MAX * PART_BYTES_MAX
    for start in range(0, last, PART_BYTES_MAX):
        yield Kind.PART, record[start : start + PART_BYTES_MAX]
    yield Kind.RECORD, record[last:]
