"""What is on the simulated disk: the segments of the log, and the state that checkpoints make of it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from sluicegate.storage.environment.identity import Positions
from sluicegate.storage.interface import CommitJob, LogEntry, LogGap, PageKey, Table
from sluicegate.storage.log.record import decode_log_record
from sluicegate.storage.log.tail import TailChanges

NOTHING_APPLIED = Positions(applied=0, needed_from=1)


@dataclass
class Image:
    """Everything that outlives the node. Bytes are as they are at rest."""

    incarnation: int = 1  # of the spool: a backup that is restored has another one
    segments: list[dict[int, bytes]] = field(default_factory=list)  # records by number; only the last one grows
    # A record whose append failed, and which is there all the same, until it is appended again. A node that starts
    # before takes it for a record as any other.
    leftover: CommitJob | None = None
    torn: int = 0  # the number of a record that was half written when the power failed
    positions: Positions = NOTHING_APPLIED
    pages: dict[PageKey, bytes] = field(default_factory=dict)
    cursors: dict[int, bytes] = field(default_factory=dict)
    tables: dict[Table, dict[bytes, bytes]] = field(default_factory=lambda: {table: {} for table in Table})
    clean: bool = False

    @property
    def log(self) -> dict[int, bytes]:
        """The records that were not trimmed."""
        return {number: data for segment in self.segments for number, data in segment.items()}

    @property
    def last_number(self) -> int:
        """The number of the last record, of those that the state includes, too."""
        return max([self.positions.applied, *[max(each, default=0) for each in self.segments]])

    def keys(self, table: Table) -> set[bytes]:
        """Return the stored keys of a table, as a start would find them."""
        rows: dict[bytes, bytes | None] = {**self.tables[table], **self.changes().rows[table]}
        return {key for key, data in rows.items() if data is not None}

    def changes(self) -> TailChanges:
        """Return what the records that the state does not include change."""
        unapplied = [data for number, data in sorted(self.log.items()) if number > self.positions.applied]
        return TailChanges([decode_log_record(data, "record", is_sound=True) for data in unapplied])

    def begin_segment(self) -> None:
        """Begin a segment behind everything; its header voids a leftover."""
        self.segments.append({})
        self.leftover = None

    def trim(self, before: int) -> None:
        """Give up the segments that have no record from this number on."""
        self.segments = [each for each in self.segments[:-1] if max(each, default=0) >= before] + self.segments[-1:]


class MemoryLog:
    """The log as `storage.log.replay` reads it."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self.place = "log"
        self.damages: list[tuple[str, str]] = []
        self.gaps: list[LogGap] = []  # numbers are missing where appends failed

    @property
    def first_number(self) -> int:
        """The least number that a record may have."""
        return min(self._image.log, default=self._image.last_number + 1)

    @property
    def last_number(self) -> int:
        """The number of the last record; 0 when there is none."""
        return max(self._image.log, default=0)

    def read(self, first: int) -> Iterator[LogEntry]:
        """Yield the records from a number on."""
        for number, data in sorted(self._image.log.items()):
            if number >= first:
                yield LogEntry(number, data, is_sound=True)
