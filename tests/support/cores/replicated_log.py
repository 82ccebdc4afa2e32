"""Three replicas, a stream that stores appends late, twice or never, and a judge: the model's actions in random order.

`tests/models/replicated_log` has the same actions and promises, and is checked exhaustively within small bounds; here
it is the code that takes them.
"""

import random
from collections.abc import Callable
from typing import Final, NamedTuple

from sluicegate.storage.replication.levels import LEVEL_OLDEST
from sluicegate.storage.replication.messages import Begin
from sluicegate.storage.replication.replica import Append, OwnershipLost, Record, Replica, Role, first_message
from sluicegate.storage.replication.stream import Bounds, StoredMessage

COPIES_MAX: Final = 6
LEVELS: Final = 2  # that a log may have
BEGIN: Final = Begin(incarnation=7, broker="edge")


class ModelStream:
    """What the servers agree on. `checks`: whether an append has to name the last sequence."""

    def __init__(self, *, checks: bool) -> None:
        self.messages = [first_message(BEGIN, 0)]
        self._checks = checks

    def append(self, append: Append) -> int | None:
        """Return the sequence at which it is stored, None when it is refused."""
        if self._checks and append.expected != len(self.messages):
            return None
        self.messages.append(append.data)
        return len(self.messages)

    def at(self, sequence: int) -> bytes | None:
        """Return the message at a sequence, None beyond the end."""
        return self.messages[sequence - 1] if sequence <= len(self.messages) else None


class ServedStream:
    """The same for a `ReplicatedLog`: every request is answered, and the order checked."""

    def __init__(self, begin: Begin = BEGIN) -> None:
        self.model: Final = ModelStream(checks=True)
        self.model.messages[0] = first_message(begin, 0)

    async def append(self, append: Append) -> int | None:
        """Return the sequence at which it is stored, None when it is refused."""
        return self.model.append(append)

    async def at(self, sequence: int) -> bytes | None:
        """Return the message at a sequence, None beyond the end."""
        return self.model.at(sequence)

    async def bounds(self) -> Bounds:
        """Return what there is."""
        messages = self.model.messages
        return Bounds(1, len(messages), sum([len(each) for each in messages]))

    async def read(self, after: int, wait_s: float) -> list[StoredMessage]:
        """Return up to three messages; wait for none."""
        messages = self.model.messages[after : after + 3]
        return [StoredMessage(after + 1 + place, data) for place, data in enumerate(messages)]

    async def trim(self, before: int) -> None:
        """Delete nothing, which is allowed: a trim may come late."""


class Copy(NamedTuple):
    """An append under way, and whether its answer will be heard."""

    by: int
    append: Append
    is_answered: bool


class Cluster:
    """Replicas of one broker, and what their publishers were told."""

    def __init__(self, seed: int, *, checks: bool = True, make: Callable[[str], Replica] | None = None) -> None:
        self.rng: Final = random.Random(seed)
        self.stream: Final = ModelStream(checks=checks)
        self._make: Final = make or (lambda name: Replica(name, "0", reads=LEVELS))
        self.replicas = [self._make(name) for name in "abc"]
        self.records: list[list[Record]] = [[], [], []]  # of each replica
        self.told: list[bytes] = []
        self.refused: list[bytes] = []
        self._key = 0
        self._copies: list[Copy] = []
        self._proposed: list[Record | None] = [None, None, None]
        self._closed: set[int] = set()  # epochs of which the owner has stopped in order
        self._last_served = 0  # the epoch of the last replica that became the owner
        self.level = LEVEL_OLDEST  # of the log, when it was judged last
        self.clean_count = 0  # owners that knew what had been delivered
        self._count = 0

    def step(self) -> None:
        """Take one random action."""
        actions: list[Callable[[int], None]] = [
            *[self._store] * 8,
            self._lose,
            *[self.read] * 8,
            *[self._append_epoch] * 2,
            *[self._propose] * 4,
            self._retry,
            *[self._look] * 2,
            self._cancel,
        ]
        if self.rng.random() < 0.03:
            actions = [self._take_key, self._restart, self._close, self._raise_level]
        self.rng.choice(actions)(self.rng.randrange(len(self.replicas)))

    def judge(self) -> None:
        """Check what is promised, against a reader that reads the whole stream."""
        reader = Replica("judge", "0", reads=LEVELS)
        history = [
            record
            for sequence, data in enumerate(self.stream.messages, start=1)
            if (record := reader.read(sequence, data)) is not None
        ]
        stored = [record.data for record in history]
        for data in self.told:
            assert stored.count(data) == 1, f"{data!r} was confirmed, and is in the log {stored.count(data)} times"
        for data in self.refused:
            assert data not in stored, f"{data!r} was refused, and is in the log"
        for replica, records in zip(self.replicas, self.records, strict=True):
            assert records == history[: len(records)], f"replica {replica.name} has another history"
            assert replica.level <= reader.level, f"replica {replica.name} has raised the level for nobody else"
        self.level = reader.level

    # --- the stream ---

    def _send(self, by: int, appends: list[Append]) -> None:
        for append in appends:
            if len(self._copies) < COPIES_MAX:
                self._copies.append(Copy(by, append, self.rng.random() < 0.7))

    def _store(self, _: int) -> None:
        if not self._copies:
            return
        place = 0 if self.rng.random() < 0.7 else self.rng.randrange(len(self._copies))
        by, append, is_answered = self._copies.pop(place)
        sequence = self.stream.append(append)
        if is_answered and self.replicas[by].role is Role.OWNER:
            self._answered(by, append, sequence)

    def _answered(self, by: int, append: Append, sequence: int | None) -> None:
        replica = self.replicas[by]
        if sequence is not None and replica.is_waiting():
            if replica.confirm(append, sequence):
                self._confirmed(by)
            elif replica.is_cancelled:
                self._cancelled(by)

    def _lose(self, _: int) -> None:
        if self._copies:
            self._copies.pop(self.rng.randrange(len(self._copies)))

    # --- the replicas ---

    def _take_key(self, who: int) -> None:
        if self.replicas[who].role is Role.STANDBY:
            self._key += 1
            self.replicas[who].take_key(self._key)

    def _append_epoch(self, who: int) -> None:
        replica = self.replicas[who]
        if replica.role is Role.TAKING and replica.read_through:
            append = replica.append_epoch(len(self.stream.messages), time_ms=0)
            if append is not None:
                self._send(who, [append])

    def _propose(self, who: int) -> None:
        replica = self.replicas[who]
        if replica.role is Role.OWNER and not replica.is_waiting():
            self._count += 1
            record = b"record %d" % self._count * self.rng.choice([1, 1, 150_000])
            self._proposed[who] = Record(replica.next_number(), record)
            self._send(who, replica.propose(record, time_ms=0))

    def _close(self, who: int) -> None:
        """Stop in order: nothing is delivered any more."""
        replica = self.replicas[who]
        if replica.role is Role.OWNER and not replica.is_waiting():
            self._closed.add(replica.epoch)
            self._send(who, replica.close(b"%d" % len(self.records[who]), time_ms=0))

    def _raise_level(self, who: int) -> None:
        replica = self.replicas[who]
        if replica.role is Role.OWNER and not replica.is_waiting() and replica.level < replica.reads:
            self._send(who, replica.raise_level(replica.level + 1, time_ms=0))

    def _retry(self, who: int) -> None:
        if self.replicas[who].role is Role.OWNER:
            self._send(who, self.replicas[who].retry())

    def _cancel(self, who: int) -> None:
        replica = self.replicas[who]
        if replica.role is Role.OWNER and replica.is_waiting() and self.rng.random() < 0.3:
            self._send(who, [replica.cancel(time_ms=0, through=self._last_place(who))])

    def _look(self, who: int) -> None:
        replica = self.replicas[who]
        if replica.role is not Role.OWNER or not replica.is_waiting():
            return
        found = self.stream.at(replica.oldest_place())
        try:
            if replica.look(found):
                self._confirmed(who)
            elif replica.is_cancelled:
                self._cancelled(who)
            elif found is None:
                self.nothing_there(who)
        except OwnershipLost:
            self.ownership_lost(who)

    def nothing_there(self, who: int) -> None:
        """Handle that the leader has nothing at the place of an append: this says nothing of it."""

    def ownership_lost(self, who: int) -> None:
        """Handle that the leader has something else there: publishers are told nothing."""
        self._proposed[who] = None

    def _confirmed(self, who: int) -> None:
        record = self._proposed[who]
        if record is None:  # no record: the owner has stopped, or raised the level
            return
        self._proposed[who] = None
        self.told.append(record.data)
        self.records[who].append(record)

    def _last_place(self, who: int) -> int:
        """Return the last place for which a copy of the record may come that a replica has proposed."""
        replica = self.replicas[who]
        return max([replica.oldest_place(), *[each.expected + 1 for each in replica.retry()]])

    def _cancelled(self, who: int) -> None:
        if self._proposed[who] is None:
            self._closed.discard(self.replicas[who].epoch)  # if it was to stop, it goes on
            return
        self.refused.append(self.proposed(who))
        self._proposed[who] = None

    def proposed(self, who: int) -> bytes:
        """Return the record whose outcome a replica does not know."""
        record = self._proposed[who]
        assert record is not None
        return record.data

    def read(self, who: int) -> None:
        """Have a replica read one message."""
        replica = self.replicas[who]
        data = self.stream.at(replica.read_through + 1)
        if replica.role is not Role.OWNER and data is not None:
            record = replica.read(replica.read_through + 1, data)
            if record is not None:
                self.records[who].append(record)
            self._look_who_owns(who)

    def _look_who_owns(self, who: int) -> None:
        """Judge what a replica knows that has just become the owner."""
        replica = self.replicas[who]
        if replica.role is not Role.OWNER:
            return
        if replica.clean is not None:
            self.clean_count += 1
            assert self._last_served in self._closed, "the owner before has not stopped in order"
            assert int(replica.clean) == len(self.records[who]), "something was written since"
        self._last_served = replica.epoch

    def _restart(self, who: int) -> None:
        """Start a replica again: with what it has applied, or on an empty disk."""
        self._proposed[who] = None
        self.replicas[who] = replica = self._make("abc"[who])
        if self.records[who] and self.rng.random() < 0.7:
            replica.resume(self.records[who].pop().number)  # it is read again
        else:
            self.records[who] = []


def run(seeds: range, steps: int, cluster: Callable[[int], Cluster]) -> None:
    """Judge many runs, each after its last step and now and then before."""
    for seed in seeds:
        running = cluster(seed)
        for step in range(steps):
            running.step()
            if step % 50 == 0:
                running.judge()
        running.judge()
