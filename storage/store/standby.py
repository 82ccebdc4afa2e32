"""A standby: a replica whose store follows the stream of the owner, and is warm when it has to become the owner.

The records that are read go into the store's own log (`SpoolStore.take`). When enough has come, a checkpoint brings
the state up to it (`storage.store.applier`), so memory and log stay short, and a start has little to read. What an
owner's recovery finds in this store is what it would find in the owner's.
"""

from collections.abc import Sequence
from typing import NamedTuple, final

from sluicegate.storage.errors import DamagedRecord, StorageError
from sluicegate.storage.replication.messages import FIRST_PLACE, Begin, Kind, decode_begin, decode_message
from sluicegate.storage.replication.replica import LogMissing, LogTrimmed, Record, Replica
from sluicegate.storage.replication.stream import Stream
from sluicegate.storage.store.applier import Applier
from sluicegate.storage.store.store import SpoolStore


class OtherLog(StorageError):
    """The stream is not the log of which this store has a copy."""


class Lag(NamedTuple):
    """How far a standby is."""

    position: int  # number of the last record that it has
    messages: int  # of the stream that were not read yet; a record is one message, or several if it is large
    byte_count: int  # of these, about: as many as the messages of the stream have on average


@final
class Standby:
    """The store of a replica that reads. For the thread that owns the store."""

    def __init__(self, store: SpoolStore, replica: Replica) -> None:
        """Look at what the store has. Raises DamagedRecord when some of it is damaged: it needs another copy."""
        self._store = store
        self._replica = replica
        recovery = store.recover()
        self._applier = Applier(recovery, store.usage().map_bytes_max)
        if recovery.quarantined:
            what = recovery.quarantined[0]
            raise DamagedRecord(what.where, f"{what.detail}; the standby has to begin anew, in an empty folder")

    async def resume(self, stream: Stream) -> None:
        """Have the replica go on behind what the store has. Call it once, before the first read.

        The stream must have the last record as the store has it, to its end. Raises OtherLog, LogMissing when the
        stream ends before that, LogTrimmed when it begins behind, StreamUnavailable, StreamRefused.
        """
        first = await stream.at(1)
        if first is not None:  # else it was trimmed, and the last record has to show whose stream it is
            message = decode_message(first, FIRST_PLACE, "message 1 of the stream")
            if message is None or message.kind is not Kind.BEGIN:
                raise OtherLog("the stream does not begin as a log does")
            self._check_begin(decode_begin(message.content, "message 1 of the stream"))
        number = self._store.last_number
        if number == 0:
            return
        bounds = await stream.bounds()
        if bounds.last < number:
            raise LogMissing(
                f"the stream ends with message {bounds.last}, and this store has record {number} of its log"
            )
        if number < bounds.first:
            raise LogTrimmed(f"the stream begins with message {bounds.first}, behind record {number} of this store")
        last = self._store.last_record()
        if last is None and first is None:
            raise OtherLog("neither the stream's first message nor this store's last record is left to compare")
        found = await _record_at(stream, number)
        if last is not None and found.data != last.data:
            raise OtherLog(f"record {number} of this store is another one in the stream")
        self._replica.resume(number)

    def take(self, records: Sequence[Record]) -> None:
        """Take the records that were read together: the `take` of `ReplicatedLog`.

        Raises OtherLog, and what `SpoolStore.take` and `SpoolStore.checkpoint` raise; then open the store again.
        """
        if self._replica.begin is not None:
            self._check_begin(self._replica.begin)
        last = self._store.last_number  # read again at the beginning of a run
        kept = [record for record in records if record.data and record.number > last]
        for record, taken in zip(kept, self._store.take(kept), strict=True):
            self._applier.taken(record.number, taken, len(record.data))
        if self._applier.is_due():
            self.checkpoint()

    def checkpoint(self) -> None:
        """Bring the state up to the last record, and trim the log. Raises what `SpoolStore.checkpoint` raises."""
        job = self._applier.begin()
        is_made = False
        try:
            self._store.checkpoint_keeping_last(job)
            is_made = True
        finally:
            self._applier.end(self._store.usage().checkpoint_bytes if is_made else None)

    async def lag(self, stream: Stream) -> Lag:
        """Return how far this standby is. Raises StreamUnavailable, StreamRefused."""
        bounds = await stream.bounds()
        messages = max(0, bounds.last - self._replica.read_through)
        stored = bounds.last + 1 - bounds.first
        return Lag(self._store.last_number, messages, bounds.byte_count * messages // stored if stored > 0 else 0)

    def _check_begin(self, begin: Begin) -> None:
        if begin.incarnation != self._store.incarnation:
            raise OtherLog(f"the stream is the log of another spool, of a broker {begin.broker!r}")


async def _record_at(stream: Stream, number: int) -> Record:
    """Return the record of a stream with that number. Raises OtherLog when it has something else there."""
    reader = Replica("", "")
    reader.resume(number)
    while reader.owner is None and not (reader.read_through == number and reader.void_count):  # it is no such message
        data = await stream.at(reader.read_through + 1)
        if data is None:
            raise LogMissing(f"the stream lacks message {reader.read_through + 1}, of record {number} of this store")
        record = reader.read(reader.read_through + 1, data)
        if record is not None:
            return record
    raise OtherLog(f"the stream has no record {number}, which this store has, but something else")
