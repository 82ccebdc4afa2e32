"""Replicas that want one key, on virtual time: drifting clocks, pauses, lost and late requests, a bucket that is away.

Judged from outside, on the true time:

1. When a replica takes the key, no other may serve, by its own clock. (A process that is paused within a turn that it
   has begun ends that turn when it goes on. This nobody can prevent, and it is not looked at here.)
2. A silence that ends a lease was one for which the bucket answered.
3. If owners append to a log as well, and the bucket may be away for one replica alone, 1 does not hold. But from the
   epoch message of another on, an owner serves no longer than the lease.
4. When the bucket answers and some replica is well, there is an owner within a bound.
"""

import heapq
import random
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Final

from sluicegate.storage.replication.ownership.keys import ANY, Key
from sluicegate.storage.replication.ownership.lease import BY_DEFAULT, Lease, Put, Read, Role, Stopped, Taken, Wait

NAMES: Final = ("a", "b", "c")
DRIFT_MAX: Final = 0.05  # ten thousand times what a clock may have
DELAY_S: Final = 0.05  # of one way of a request
LOSS: Final = 0.05
OWNER_WITHIN_S: Final = 10.0  # the lease, two turns, and some requests that are lost


class ModelBucket:
    """One key as the leader has it. `compares`: whether a write needs the revision."""

    def __init__(self, *, compares: bool) -> None:
        self.key = Key(0, None)
        self._compares = compares

    def put(self, put: Put) -> int | None:
        """Return the new revision, None when it is refused."""
        if self._compares and put.expected != self.key.revision:
            return None
        self.key = Key(self.key.revision + 1, put.holder)
        return self.key.revision


class Process:
    """One replica and the clock of its machine."""

    def __init__(self, name: str, world: "World") -> None:
        self.name: Final = name
        self.lease = Lease(name, "1", NAMES)
        self.is_paused = False
        self.is_cut_off = False  # from the bucket
        self.request = 0  # number of the one that is out
        self.waiting: list[Callable[[], None]] = []  # what a paused process does when it goes on
        self._rate = 1 + world.rng.uniform(-DRIFT_MAX, DRIFT_MAX)
        self._offset_s = world.rng.uniform(0, 1000)
        self.step_s = 0.0  # of the wall clock

    def clock_s(self, true_s: float) -> float:
        """Return the monotonic clock."""
        return self._offset_s + self._rate * true_s

    def wait_s(self, own_s: float) -> float:
        """Return a duration of this clock in true time."""
        return own_s / self._rate


class World:
    """A run with one seed. The faults that can be planted are in the surroundings of the lease."""

    def __init__(
        self,
        seed: int,
        *,
        appends: bool = False,  # owners append to a log, and the bucket may be away for one replica
        by_wall_clock: bool = False,  # the lease is told times of a clock that is set
        failed_reads_count: bool = False,  # a read that fails gives the key that was read before
        compares: bool = True,  # the bucket takes a write whatever revision it names
    ) -> None:
        self.rng: Final = random.Random(seed)
        self.now_s = 0.0
        self.bucket = ModelBucket(compares=compares)
        self.processes = [Process(name, self) for name in NAMES]
        self.is_away = False
        self.take_count = 0
        self.stop_count = 0
        self.overlap_s = 0.0  # for which an owner served after the epoch message of another
        self._appends = appends
        self._log_epoch = 0
        self._log_epoch_s = 0.0  # when that epoch message was stored
        self._by_wall_clock = by_wall_clock
        self._failed_reads_count = failed_reads_count
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count(1)
        self._away_until_s = 0.0
        self._away_since_s = 0.0
        self._well_since_s = 0.0  # when the last fault ends
        self._served_s = 0.0  # when somebody served
        self._seen: dict[str, Key] = {}

    def run(self, for_s: float) -> None:
        """Play so much time. Raises AssertionError when a promise is broken."""
        for process in self.processes:
            self._later(self.rng.random(), partial(self._act, process))
            if self._appends:
                self._append(process)
        self._later(0.1, self._fault)
        self._later(0.1, self._watch)
        while self._events and self.now_s < for_s:
            self.now_s, _, event = heapq.heappop(self._events)
            event()

    def _later(self, after_s: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_s + after_s, next(self._numbers), event))

    def _clock_s(self, process: Process) -> float:
        return process.clock_s(self.now_s) + (process.step_s if self._by_wall_clock else 0.0)

    # --- a process ---

    def _act(self, process: Process) -> None:
        """Let a process do what it does next."""
        if process.is_paused:
            process.waiting.append(lambda: self._act(process))
            return
        now_s = self._clock_s(process)
        self._note(process.lease.tick(now_s))
        if process.lease.role is Role.OWNER and self.rng.random() < 0.02:
            successor = self.rng.choice([name for name in (*NAMES, ANY) if name != process.name])
            lease = process.lease
            self._note(lease.release(now_s) if successor == ANY else lease.hand_over(successor, now_s))
        step = process.lease.next(now_s, is_caught_up=True)
        if isinstance(step, Wait):
            self._later(max(0.001, process.wait_s(step.until_s - now_s)), lambda: self._act(process))
            return
        process.request = number = next(self._numbers)
        self._later(
            process.wait_s(process.lease.answer_within_s(now_s)),
            lambda: self._answer(process, number, step, None),
        )
        if not self._is_lost():
            self._later(self._delay_s(), lambda: self._arrive(process, number, step))

    def _arrive(self, process: Process, number: int, step: Read | Put) -> None:
        """Let a request reach the leader. A late one may come when nobody waits for it any more."""
        if self.is_away or process.is_cut_off:
            return
        answer: Key | int | None = self.bucket.key
        if isinstance(step, Put):
            before = self.bucket.key
            answer = self.bucket.put(step)
            if answer is not None:
                self._judge_write(process, before)
        if not self._is_lost():
            self._later(self._delay_s(), lambda: self._answer(process, number, step, (answer,)))

    def _answer(self, process: Process, number: int, step: Read | Put, answer: tuple[Key | int | None] | None) -> None:
        if process.is_paused:
            process.waiting.append(lambda: self._answer(process, number, step, answer))
            return
        if process.request != number:
            return
        process.request = 0
        now_s = self._clock_s(process)
        match answer:
            case (Key() as key,):
                self._seen[process.name] = key
                self._note(process.lease.read(key, now_s))
            case (int() as revision,):
                self._note(process.lease.stored(revision, now_s))
                if self._appends:
                    self._append_epoch(process)
            case _ if isinstance(step, Put):
                self._note(process.lease.unconfirmed(now_s))
            case _ if self._failed_reads_count and process.name in self._seen:
                self._note(process.lease.read(self._seen[process.name], now_s))
            case _:
                self._note(process.lease.read_failed(now_s))
        self._act(process)

    def _note(self, change: Taken | Stopped | None) -> None:
        self.take_count += isinstance(change, Taken)
        self.stop_count += isinstance(change, Stopped)

    # --- the log ---

    def _append_epoch(self, process: Process) -> None:
        """Fence the owners before, as one that has the key does at first."""
        if process.lease.role is Role.OWNER and process.lease.epoch > self._log_epoch:
            self._log_epoch, self._log_epoch_s = process.lease.epoch, self.now_s

    def _append(self, process: Process) -> None:
        """Let an owner append, now often and now seldom."""
        self._later(self.rng.choice([0.3, 1.0, 5.0]), lambda: self._append(process))
        now_s = self._clock_s(process)
        if process.is_paused or not process.lease.serves(now_s):
            return
        if process.lease.epoch == self._log_epoch:
            process.lease.appended(now_s)
        else:
            self._note(process.lease.give_up("another replica appends to the log"))

    # --- faults ---

    def _is_lost(self) -> bool:
        return self.rng.random() < LOSS

    def _delay_s(self) -> float:
        return DELAY_S * self.rng.random() * (1 if self.rng.random() < 0.95 else 40)

    def _fault(self) -> None:
        """Begin one fault, and the next one after it. The pauses between are long enough for an owner to be there."""
        duration_s = self.rng.choice([0.3, 1.0, 3.0, 10.0])
        process = self.rng.choice(self.processes)
        match self.rng.randrange(4 if self._appends else 3):
            case 0:
                self.is_away = True
                self._away_since_s, self._away_until_s = self.now_s, self.now_s + duration_s
            case 1:
                process.is_paused = True
            case 3:
                process.is_cut_off = True
            case _:
                process.step_s += self.rng.uniform(-10, 10)
        self._well_since_s = self.now_s + duration_s
        self._later(duration_s, lambda: self._end_fault(process))
        self._later(duration_s + self.rng.choice([0.5, 5.0, 20.0, 40.0]), self._fault)

    def _end_fault(self, process: Process) -> None:
        self.is_away = False
        process.is_paused = False
        process.is_cut_off = False
        waiting, process.waiting = process.waiting, []
        for event in waiting:
            event()

    # --- promises ---

    def _judge_write(self, by: Process, before: Key) -> None:
        """Judge the moment at which the key is another's."""
        for other in self.processes:
            if other is not by and not self._appends:
                serves = other.lease.serves(self._clock_s(other))
                assert not serves, f"{by.name} has the key at {self.now_s:.2f} s, and {other.name} still serves"
        holder = before.holder
        if holder is None or holder.name == by.name or holder.successor in (by.name, ANY):
            return
        silence_s = BY_DEFAULT.lease_s * (1 - DRIFT_MAX)
        away_s = min(self._away_until_s, self.now_s) - max(self._away_since_s, self.now_s - silence_s)
        assert away_s <= BY_DEFAULT.gap_s * (1 + DRIFT_MAX), (
            f"{by.name} takes the key at {self.now_s:.2f} s, and the bucket was away for {away_s:.2f} s of the silence"
        )

    def _watch(self) -> None:
        self._later(0.1, self._watch)
        serving = [each.name for each in self.processes if each.lease.serves(self._clock_s(each))]
        if any(each.lease.epoch < self._log_epoch for each in self.processes if each.name in serving):
            self.overlap_s = max(self.overlap_s, self.now_s - self._log_epoch_s)
            assert self.overlap_s <= BY_DEFAULT.lease_s, f"{serving} serve at {self.now_s:.2f} s for long"
        else:
            assert len(serving) <= 1, f"{serving} serve at {self.now_s:.2f} s"
        if serving:
            self._served_s = self.now_s
        unowned_s = self.now_s - max(self._served_s, self._well_since_s)
        assert unowned_s <= OWNER_WITHIN_S, f"nobody serves at {self.now_s:.2f} s"
