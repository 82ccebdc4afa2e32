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

An owner that stops in order appends a clean message (`close`): what it had delivered, and how often that failed. It is
the owner no more from then on. Whoever takes over next uses it if nothing that counts is between that message and its
own epoch: then nobody else has delivered meanwhile.

An owner may give up a record of unknown outcome (`cancel`): it sends another message for the same place. Which of the
two is stored decides. Copies of the rest may come for the places behind it. So these are taken as well, by more such
messages or by those copies, which are void, before another record is sent. Thus a stream without room for the rest of a
large record does not hold up what fits.

An owner raises the feature level of the log (`raise_level`, `storage.replication.levels`) with a message of its own.
The next record has its number, as behind one that was given up, so the account of commits need not know of it.

This is the pure part: it sends nothing, and is told what came. Its methods have the names of the actions in the model,
`tests/models/replicated_log`; `close` and `raise_level` are in random runs of the code only.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final, NamedTuple

from sluicegate.storage.errors import CommitInDoubt, StorageError
from sluicegate.storage.replication.levels import LEVEL, LEVEL_OLDEST
from sluicegate.storage.replication.messages import (
    FIRST_PLACE,
    Begin,
    Epoch,
    Handed,
    Kind,
    Message,
    Place,
    chain_of,
    decode_begin,
    decode_epoch,
    decode_handed,
    decode_message,
    encode_begin,
    encode_epoch,
    encode_handed,
    encode_message,
    place_after,
    place_of,
)

PART_BYTES_MAX: Final = 512 << 10  # a server takes messages of 1 MiB, if nobody has changed that
REVISIONS: Final = 1 << 40  # of a bucket; those of one that was made anew begin again, above a multiple of it


class Role(Enum):
    """What a replica does."""

    STANDBY = "standby"  # it reads
    TAKING = "taking over"  # it has the key, and reads back its epoch message
    OWNER = "owner"  # it appends


class OwnershipLost(CommitInDoubt):
    """Another replica appends to the log: this one does so no more, and what it had not confirmed may be void.

    Or it may be there: a copy of it that came in time. So publishers are told nothing.
    """


class LogMissing(StorageError):
    """The stream does not have what a replica has read from it, or has to read next."""


class LogTrimmed(LogMissing):
    """The stream was trimmed beyond what a replica has read: it has to begin anew, from a snapshot."""


class Append(NamedTuple):
    """A message on its way to the stream."""

    expected: int  # sequence of the message before it
    data: bytes


class Record(NamedTuple):
    """A record that was read."""

    number: int  # sequence of its first message, or of that of a record given up before it; they ascend
    data: bytes  # see `storage.log.record`; empty when an owner only showed that it is one


class Replica:
    """The state of one replica. Sequences are those of the stream: the first message has 1."""

    def __init__(self, name: str, release: str, reads: int = LEVEL) -> None:
        """`reads` is the highest feature level that its release reads."""
        self.name = name
        self.reads = reads
        self.level = LEVEL_OLDEST  # of the log
        self.role = Role.STANDBY
        self.epoch = 0  # with which it took the key
        self.begin: Begin | None = None  # what the stream says of itself
        self.owner: Epoch | None = None  # whose epoch message was read last
        self.owner_epoch = 0
        self.read_through = 0  # the sequence of the last message that was read or stored
        self.time_ms = 0  # of the log
        self.void_count = 0  # messages that were void
        self.clean: bytes | None = None  # left by the owner before this one; None: it has not stopped in order
        self._last_clean: bytes | None = None  # the content of the last message that counts, if it is a clean one
        self.site = ""  # of this replica, with the epoch of the sites: what it says when it takes over
        self.site_epoch = 0
        self.hands_to = ""  # the site to which this owner gives the broker up at its end; empty: to none
        self.handed: Handed | None = None  # the last owner's site has given the broker up, and none has it since
        self._release = release
        self._place: Place | None = FIRST_PLACE  # of the next message; None: the next one is taken as it is
        self._parts: list[bytes] = []
        self._number = 0  # of the record to which the next message belongs; 0: it begins with that message
        self._out: list[Append] = []  # appends of unknown outcome, oldest first
        self._cancel: Append | None = None  # sent for the place of the oldest of them, to give the record up
        self._last_copy = 0  # the last place for which a copy of it may come
        self._is_given_up = False  # by a message that is stored
        self.is_cancelled = False  # the last record that was proposed is given up, and no copy of it may come
        self._stored: set[int] = set()  # sequences for which the answers to younger ones of them came

    # --- reading ---

    def resume(self, number: int) -> None:
        """Go on with a record that this replica has, and that is read again: by its hash the next ones fit."""
        self.read_through = number - 1
        self._place = FIRST_PLACE if number == 1 else None

    def read(self, sequence: int, data: bytes) -> Record | None:
        """Take the next message of the stream; return the record that ends with it.

        Raises LogTrimmed and LogMissing when it is not the next one, and UnsupportedFormat and DamagedRecord for a
        message that counts and cannot be read.
        """
        if sequence != self.read_through + 1:
            kind = LogTrimmed if sequence > self.read_through else LogMissing
            raise kind(f"the stream goes on with {sequence}, and {self.read_through + 1} was not read yet")
        where = f"message {sequence} of the stream"
        message = self._decoded(data, where)
        self.read_through = sequence
        if message is None:
            self.void_count += 1
            return None
        return self._take(message, data, sequence, where)

    def _decoded(self, data: bytes, where: str) -> Message | None:
        return decode_message(data, self._place or place_of(data, where), where, self.reads)

    def _take(self, message: Message, data: bytes, sequence: int, where: str) -> Record | None:
        """Apply a message that counts."""
        self._place = place_after(message, data)
        self.owner_epoch = message.epoch
        self.time_ms = max(self.time_ms, message.time_ms)
        self.level = max(self.level, message.level)
        clean, self._last_clean = self._last_clean, None
        match message.kind:
            case Kind.RECORD:  # first: nearly every message is one
                number, self._number = self._number or sequence, 0
                return Record(number, self._whole(message))
            case Kind.BEGIN:
                self.begin = decode_begin(message.content, where)
            case Kind.EPOCH:
                self._parts.clear()  # of a record that its owner did not finish
                self._number = 0
                self.owner = decode_epoch(message.content, where)
                self.handed = None
                if self.role is Role.TAKING and message.epoch >= self.epoch:
                    is_own = bool(self._out) and data == self._out[0].data
                    self._out.clear()
                    self.role = Role.OWNER if is_own else Role.STANDBY
                    self.clean = clean if is_own else None
            case Kind.PART:
                self._number = self._number or sequence
                self._parts.append(message.content)
            case Kind.CANCEL | Kind.LEVEL:  # the next record has its number: whoever commits it counts on that
                self._number = self._number or sequence
                self._parts.clear()
            case Kind.HANDED:
                self.handed = decode_handed(message.content, where)
            case Kind.CLEAN:
                self._number = 0
                self._last_clean = self._whole(message)
                if self.role is Role.OWNER:
                    self.role = Role.STANDBY
        return None

    def _whole(self, message: Message) -> bytes:
        if not self._parts:
            return message.content
        content = b"".join([*self._parts, message.content])
        self._parts.clear()
        return content

    # --- taking over ---

    def take_key(self, revision: int) -> None:
        """Try to take over: the key is this replica's, with that revision.

        The revision is the epoch. If the log has had such an epoch, or a later one, then the bucket was made anew: the
        epoch is the revision and the least multiple of REVISIONS with which it is later. So epochs of two revisions
        differ, and that of the later one is the later one.
        """
        assert self.role is Role.STANDBY
        self.epoch = revision + max(0, -(-(self.owner_epoch + 1 - revision) // REVISIONS)) * REVISIONS
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
        content = encode_epoch(Epoch(self.name, self._release, self.site, self.site_epoch))
        self._out = [Append(self.read_through, self._encoded(Kind.EPOCH, place, time_ms, content))]
        return self._out[0]

    # --- appending ---

    def next_number(self) -> int:
        """Return the number of the next record: the place of its first message, or of the first that was given up."""
        return self._number or self.read_through + 1

    def is_waiting(self) -> bool:
        """Return whether the outcome of a record is unknown, or a copy of one that is given up may still come."""
        return bool(self._out) or (self._is_given_up and not self.is_cancelled)

    def propose(self, record: bytes, time_ms: int) -> list[Append]:
        """Return the messages of the next record, in order. Each of them is sent; the next record waits for all."""
        return self._proposed(_pieces(record, Kind.RECORD), time_ms)

    def close(self, clean: bytes, time_ms: int) -> list[Append]:
        """Return the messages to send, as `propose` does, by which an owner ends: it is a standby when they are stored.

        `clean` is what its successor has to know: the content of a clean message.
        """
        handed = [self._handed_over(self.hands_to)] if self.hands_to else []
        return self._proposed([*handed, *_pieces(clean, Kind.CLEAN)], time_ms)

    def hand_over(self, site: str, time_ms: int) -> list[Append]:
        """Return the message to send by which an owner gives the broker up to another site, without `close`."""
        return self._proposed([self._handed_over(site)], time_ms)

    def _handed_over(self, site: str) -> tuple[Kind, bytes]:
        return Kind.HANDED, encode_handed(Handed(site, self.site_epoch))

    def raise_level(self, level: int, time_ms: int) -> list[Append]:
        """Return the message to send, as `propose` does, with which the log has a higher level."""
        assert self.level < level <= self.reads
        return self._proposed([(Kind.LEVEL, b"")], time_ms, level)

    def _proposed(self, pieces: Iterable[tuple[Kind, bytes]], time_ms: int, level: int = 0) -> list[Append]:
        assert self.role is Role.OWNER
        assert not self.is_waiting(), "one record at a time"
        assert self._place is not None
        place = self._place
        self._last_copy = 0
        self._is_given_up = self.is_cancelled = False
        expected = self.read_through
        for kind, piece in pieces:
            data = self._encoded(kind, place, time_ms, piece, level)
            self._out.append(Append(expected, data))
            place = Place(place.epoch, place.position + 1, chain_of(data))
            expected += 1
        return list(self._out)

    def retry(self) -> list[Append]:
        """Return what to send once more, the same bytes for the same places: all whose outcome is unknown."""
        return [each for each in self._out if each.expected + 1 not in self._stored]

    def confirm(self, append: Append, sequence: int) -> bool:
        """Take the answer that an append is stored at a sequence; return whether the whole record is.

        Only an answer for its own place counts. That of `cancel` is stored when `is_cancelled` is true then.
        """
        if append == self._cancel and sequence == append.expected + 1:
            self._give_up(append)
        elif append in self._out and sequence == append.expected + 1:
            self._stored.add(sequence)
        while self._out and self._out[0].expected + 1 in self._stored:
            self._advance(self._out.pop(0))
        return not self._out and not self._is_given_up

    def cancel(self, time_ms: int, through: int) -> Append:
        """Give the record up whose outcome is unknown; return the message to send for that next.

        It has the place of the oldest append, so one of them is stored and the other is not: `confirm` or `look` says
        which. If it is the oldest one, the rest of the record is out as before. `through` is the last place for which a
        copy of the record may come. Call this again until the record is stored, or `is_cancelled`.
        """
        assert self.role is Role.OWNER
        assert self.is_waiting()
        assert self._place is not None
        self._last_copy = max(self._last_copy, through)
        if self._cancel is None:
            data = self._encoded(Kind.CANCEL, self._place, time_ms, b"")
            self._cancel = Append(self.read_through, data)
        return self._cancel

    def look(self, data: bytes | None) -> bool:
        """Take what the leader has at the place of the oldest append, None for nothing; return as `confirm` does.

        Raises OwnershipLost when it is another message: the replica is a standby from then on.
        """
        if data is None:
            return False
        for append in (*self._out[:1], self._cancel):
            if append is not None and data == append.data:
                return self.confirm(append, append.expected + 1)
        place = self.oldest_place()
        if self._is_given_up and self._decoded(data, f"message {place} of the stream") is None:
            self.void_count += 1
            self._pass_place(place)
            return False
        self.step_down()
        raise OwnershipLost(f"another replica has written message {place} of the log")

    def withdraw(self) -> None:
        """Give the record up that was proposed: nothing of it is stored, or under way.

        So it is when its first message was sent once, and the answer was that the stream is full. Another copy could
        still be stored when there is room again.
        """
        assert self._out
        assert self._out[0].expected == self.read_through
        assert self._cancel is None, "it may be under way"
        assert not self._parts, "a part of it is stored"
        self._out.clear()
        self._stored.clear()

    def oldest_place(self) -> int:
        """Return the sequence at which the oldest append would be."""
        return self.read_through + 1

    def step_down(self) -> None:
        """Be a standby again. What is out may be stored or not; nobody was told."""
        self.role = Role.STANDBY
        self._out.clear()
        self._stored.clear()
        self._cancel = None
        self._is_given_up = False

    def _give_up(self, cancel: Append) -> None:
        self._out.clear()
        self._stored.clear()
        self._is_given_up = True
        self._advance(cancel)
        self._pass_place(self.read_through)

    def _pass_place(self, sequence: int) -> None:
        """Note that a place of a record that is given up is taken."""
        self.read_through = sequence
        self._cancel = None
        self.is_cancelled = sequence >= self._last_copy

    def _advance(self, append: Append) -> None:
        sequence = append.expected + 1
        self._stored.discard(sequence)
        self._cancel = None  # its place is taken
        assert self._place is not None
        message = self._decoded(append.data, "what this replica wrote")
        assert message is not None
        self.read_through = sequence
        self._take(message, append.data, sequence, "what this replica wrote")

    def _encoded(self, kind: Kind, place: Place, time_ms: int, content: bytes, level: int = 0) -> bytes:
        """Return the bytes of a message, at the level of the log if no other one is given."""
        return encode_message(kind, place, self._later(time_ms), content, level or self.level)

    def _later(self, time_ms: int) -> int:
        """Return the time of the next message: that of the log never goes back."""
        self.time_ms = max(self.time_ms, time_ms)
        return self.time_ms


def first_message(begin: Begin, time_ms: int) -> bytes:
    """Return the message with which a stream begins."""
    return encode_message(Kind.BEGIN, FIRST_PLACE, time_ms, encode_begin(begin))


def _pieces(content: bytes, last: Kind) -> Iterator[tuple[Kind, bytes]]:
    """Yield the messages of a content; the last one is of that kind."""
    rest = max(0, len(content) - 1) // PART_BYTES_MAX * PART_BYTES_MAX
    for start in range(0, rest, PART_BYTES_MAX):
        yield Kind.PART, content[start : start + PART_BYTES_MAX]
    yield last, content[rest:]
