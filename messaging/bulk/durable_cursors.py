"""Durable cursors: readers that keep their position in a queue over restarts of the reader and of the broker.

A cursor reads ranges of sequences (messaging.bulk.range_reads) and acknowledges its progress from time to time. There
are two modes. A *tap* reads beside the queue's consumers and takes nothing from them. A cursor in mode *consume* is the
queue's only consumer: what it acknowledges is settled.

One binding of a cursor is live: each bind raises its epoch, and requests of an older epoch are refused. A binding
without a heartbeat for a while ends; the position stays. A restart of the broker does not count as silence of the
reader: the binding and its pins survive, and the reader continues.

Messages before a position are not needed; everything after it is kept, until the cursor exceeds its allowed lag. Then
the cursor is released with an event (`exceeded`), for a reader that never returns must not fill the spool.

The caller brings the time and writes the rows: actors.cursors.directory, which also asks the partitions.
"""

from typing import Final, NamedTuple, final

CONSUME: Final = "consume"
TAP: Final = "tap"
MODES: Final = (CONSUME, TAP)
EARLIEST: Final = "earliest"  # a new cursor begins with the oldest message
LATEST: Final = "latest"  # a new cursor begins with the next message

NAME_CHARS_MAX: Final = 200  # of cursors and instances
BATCH_REF_CHARS_MAX: Final = 500  # a query id and a batch number, with room to spare
CURSORS_PER_QUEUE_MAX: Final = 100  # each is one row, and a hold in each partition
LAG_BYTES_DEFAULT: Final = 1 << 30
LAG_BYTES_MAX: Final = 1 << 50
LAG_TIME_S_MAX: Final = 0xFFFF_FFFF
HEARTBEAT_S_DEFAULT: Final = 30  # Spark's own network timeouts begin at 120 s, its heartbeats come every 10 s
HEARTBEAT_S_MAX: Final = 3600


# Codes of refusals, as management and protocols show them.
BAD_CURSOR: Final = "bad_cursor"
FENCED: Final = "cursor_fenced"
NO_SUCH_QUEUE: Final = "queue_not_found"
NOT_DURABLE: Final = "queue_not_durable"
MODE_DIFFERS: Final = "mode_differs"
TOO_MANY: Final = "too_many_cursors"
QUEUE_IN_USE: Final = "queue_in_use"
NOT_STORED: Final = "not_stored"
NO_SUCH_CURSOR: Final = "cursor_not_found"
NO_SUCH_PARTITION: Final = "partition_not_found"
AHEAD: Final = "ahead"
CODES: Final = frozenset(
    {
        *(BAD_CURSOR, FENCED, NO_SUCH_QUEUE, NOT_DURABLE, MODE_DIFFERS, TOO_MANY, QUEUE_IN_USE, NOT_STORED),
        *(NO_SUCH_CURSOR, NO_SUCH_PARTITION, AHEAD),
    }
)


class CursorRefused(Exception):
    """A cursor refuses a request. `code` names the reason, as management and protocols show it."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class CursorFenced(CursorRefused):
    """The binding is no longer the live one: a newer one replaced it, or its heartbeat was late."""

    def __init__(self, text: str) -> None:
        super().__init__(FENCED, text)


class CursorLimits(NamedTuple):
    """The limits of a cursor, as of its last bind."""

    lag_bytes_max: int = LAG_BYTES_DEFAULT  # payload it may retain, over all partitions
    lag_time_ms_max: int = 0  # age of the oldest message it may retain; 0: no such bound
    heartbeat_ms: int = HEARTBEAT_S_DEFAULT * 1000  # a binding that is silent for this long ends


LIMITS_DEFAULT: Final = CursorLimits()


@final
class DurableCursor:
    """One reader of one queue.

    Invariants: `epoch` and every position only rise; a pin ends at or after the position it began at.
    """

    def __init__(self, name: str, queue: str, mode: str) -> None:
        self.name = name
        self.queue = queue
        self.mode = mode
        self.limits = CursorLimits()
        self.epoch = 0
        self.positions: dict[int, int] = {}  # partition id -> everything before is acknowledged; 1 where absent
        self.batch_ref = ""  # the reader's own name of its last acknowledgement, for operators
        self.exceeded = False  # it lagged more than allowed, and was released
        self.bound = False
        self.instance = ""  # holder of the binding, or the last one
        self.pins: dict[int, int] = {}  # partition id -> end of the planned rows, which are kept whatever the lag
        self._silent_from_ms = 0

    # --- the binding ---

    def bind(self, instance: str, limits: CursorLimits, now_ms: int) -> int:
        """Begin a binding, and end the one before; return the new epoch."""
        self.epoch += 1
        self.instance = instance
        self.limits = limits
        self.bound = True
        self.pins.clear()
        self._silent_from_ms = now_ms
        return self.epoch

    def resume(self, now_ms: int) -> None:
        """Restart the heartbeat deadline, from when the broker can receive again."""
        self._silent_from_ms = now_ms

    def heartbeat(self, epoch: int, now_ms: int) -> None:
        """Record a heartbeat of a binding. Raises CursorFenced."""
        if epoch != self.epoch:
            raise CursorFenced(f"cursor {self.name!r}: epoch {epoch} was fenced by {self.epoch} of {self.instance!r}")
        if not self.bound:
            raise CursorFenced(f"cursor {self.name!r}: the binding of epoch {epoch} has ended; bind again")
        self._silent_from_ms = now_ms

    def unbind(self, epoch: int) -> None:
        """End a binding; an older one has ended already."""
        if epoch == self.epoch:
            self.bound = False
            self.pins.clear()

    def deadline_ms(self) -> int:
        """Return when the binding ends without a heartbeat."""
        return self._silent_from_ms + self.limits.heartbeat_ms

    def tick(self, now_ms: int) -> bool:
        """Advance the clock; return whether the binding ended because it was silent."""
        if not self.bound or now_ms < self.deadline_ms():
            return False
        self.unbind(self.epoch)
        return True

    # --- the position ---

    def position(self, partition_id: int) -> int:
        """Return the sequence before which everything is acknowledged."""
        return self.positions.get(partition_id, 1)

    def acknowledge(self, upto: dict[int, int], batch_ref: str) -> None:
        """Raise positions; lower ones change nothing."""
        self.batch_ref = batch_ref
        for partition_id, sequence in upto.items():
            if sequence > self.position(partition_id):
                self.positions[partition_id] = sequence
            if self.pins.get(partition_id, 0) <= self.position(partition_id):
                self.pins.pop(partition_id, None)

    def pin(self, ends: dict[int, int]) -> None:
        """Keep everything before these ends until it is acknowledged, whatever the lag. No ends: unpin."""
        self.pins = {each: end for each, end in ends.items() if end > self.position(each)}

    def measure(self, lag_bytes: int, oldest_ms: int, wall_ms: int) -> bool:
        """Compare the lag with the limits; return whether the cursor has just exceeded them."""
        if self.exceeded or self.pins:
            return False
        limits = self.limits
        too_old = limits.lag_time_ms_max > 0 and 0 < oldest_ms < wall_ms - limits.lag_time_ms_max
        self.exceeded = lag_bytes > limits.lag_bytes_max or too_old
        return self.exceeded

    def caught_up(self, lows: dict[int, int]) -> bool:
        """Set where partitions begin now; return whether a released cursor lost nothing beyond its position."""
        if not self.exceeded or any(self.position(each) < low for each, low in lows.items()):
            return False
        self.exceeded = False
        return True

    def hold(self, partition_id: int) -> int | None:
        """Return the sequence from which a partition has to keep messages for it; None when it was released."""
        return None if self.exceeded else self.position(partition_id)

    # --- at rest ---

    def to_row(self) -> dict[str, object]:
        """Return the persistent state, as `cursor_from_row` reads it."""
        return {
            "name": self.name,
            "queue": self.queue,
            "mode": self.mode,
            "epoch": self.epoch,
            "positions": {str(each): sequence for each, sequence in self.positions.items()},
            "batch_ref": self.batch_ref,
            "exceeded": self.exceeded,
            "bound": self.bound,
            "instance": self.instance,
            "pins": {str(each): end for each, end in self.pins.items()},
            "limits": list(self.limits),
        }

    def __repr__(self) -> str:
        return f"DurableCursor({self.name!r} on {self.queue!r}, {self.mode}, epoch={self.epoch}, bound={self.bound})"


def cursor_from_row(row: dict[str, object]) -> DurableCursor:
    """Return a cursor from its row; a binding waits for `resume`. Raises ValueError for an invalid row."""
    name, queue, mode, epoch = row.get("name"), row.get("queue"), row.get("mode"), row.get("epoch")
    positions, batch_ref, instance = row.get("positions"), row.get("batch_ref"), row.get("instance")
    limits, pins = row.get("limits"), row.get("pins", {})  # older rows have no pins
    if not isinstance(name, str) or not isinstance(queue, str) or not isinstance(mode, str) or mode not in MODES:
        raise ValueError(f"invalid cursor {name!r} of queue {queue!r} in mode {mode!r}")
    if not isinstance(epoch, int) or not isinstance(positions, dict) or not isinstance(limits, list):
        raise ValueError(f"cursor {name!r} with epoch {epoch!r}, positions {positions!r}, limits {limits!r}")
    if not isinstance(pins, dict):
        raise ValueError(f"cursor {name!r} with pins {pins!r}")
    cursor = DurableCursor(name, queue, mode)
    cursor.epoch = epoch
    cursor.positions = {int(each): int(sequence) for each, sequence in positions.items()}
    cursor.batch_ref = batch_ref if isinstance(batch_ref, str) else ""
    cursor.instance = instance if isinstance(instance, str) else ""
    cursor.exceeded = row.get("exceeded") is True
    cursor.bound = row.get("bound") is True
    cursor.pins = {int(each): int(end) for each, end in pins.items()}
    cursor.limits = CursorLimits(*[int(each) for each in limits])
    return cursor


@final
class CursorBook:
    """All durable cursors of a node. Its actor changes it; queues read it when they are assembled."""

    def __init__(self) -> None:
        self._by_queue: dict[str, dict[str, DurableCursor]] = {}

    def add(self, cursor: DurableCursor) -> None:
        """Add a cursor."""
        self._by_queue.setdefault(cursor.queue, {})[cursor.name] = cursor

    def find(self, queue: str, name: str) -> DurableCursor | None:
        """Return the cursor of that name, None if there is none."""
        return self._by_queue.get(queue, {}).get(name)

    def remove(self, cursor: DurableCursor) -> None:
        """Remove a cursor."""
        cursors = self._by_queue[cursor.queue]
        del cursors[cursor.name]
        if not cursors:
            del self._by_queue[cursor.queue]

    def queues(self) -> list[str]:
        """Return the names of the queues that have cursors."""
        return sorted(self._by_queue)

    def of(self, queue: str) -> list[DurableCursor]:
        """Return a queue's cursors by name."""
        cursors = self._by_queue.get(queue)
        return [] if cursors is None else [cursors[name] for name in sorted(cursors)]


def check_bind(mode: str, name: str, instance: str, limits: CursorLimits) -> None:
    """Raise CursorRefused, naming what is wrong and what is allowed, unless the request is valid."""
    problem = ""
    if mode not in MODES:
        problem = f"mode {mode!r}; allowed: {' or '.join(MODES)}"
    for what, text in (("cursor", name), ("instance", instance)):
        if not 1 <= len(text) <= NAME_CHARS_MAX or not text.isprintable():
            problem = f"{what} {text[:40]!r} of {len(text)}; allowed: 1 to {NAME_CHARS_MAX} printable characters"
    if not 1 <= limits.lag_bytes_max <= LAG_BYTES_MAX:
        problem = f"lag_bytes_max {limits.lag_bytes_max}; allowed: 1 to {LAG_BYTES_MAX}"
    if not 0 <= limits.lag_time_ms_max <= LAG_TIME_S_MAX * 1000:
        problem = f"lag_time_ms_max {limits.lag_time_ms_max}; allowed: 0 to {LAG_TIME_S_MAX * 1000}"
    if not 1 <= limits.heartbeat_ms <= HEARTBEAT_S_MAX * 1000:
        problem = f"heartbeat_ms {limits.heartbeat_ms}; allowed: 1 to {HEARTBEAT_S_MAX * 1000}"
    if problem:
        raise CursorRefused(BAD_CURSOR, problem)
