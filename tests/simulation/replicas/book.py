"""The judge: which commits publishers were told of, and what each owner has of them when it begins.

Every commit has one of three outcomes. It is *stored*: its publisher was told, or a later owner has it. It is *void*:
its publisher was told that it is refused, or a later owner does not have it. Or it is open. From these the state of the
broker follows at any time, and each owner that begins must have exactly that, with none, some or all of what is open,
in its order. So nothing confirmed is lost, nothing refused turns up, each message is there once, and of two owners only
one confirms what stands.
"""

from dataclasses import dataclass
from itertools import combinations
from typing import Final, NoReturn

from simulation.judge.targets import Violation
from simulation.replicas.broker.state import Change, State, difference

OPEN_MAX: Final = 8  # commits; one owner has one, and few owners follow each other before a commit is confirmed


@dataclass(frozen=True, slots=True)
class Owner:
    """One time that a replica is the owner."""

    replica: str
    epoch: int

    def __str__(self) -> str:
        return f"{self.replica} with epoch {self.epoch}"


@dataclass
class Open:
    """A commit of which publishers were not told yet."""

    owner: Owner
    change: Change


class Book:
    """What is stored for sure, and what may be."""

    def __init__(self) -> None:
        self.state = State()
        self.owner: Owner | None = None  # that began last, of the highest epoch
        self.violation = ""  # the first promise that was broken
        self.owners_count = 0
        self.confirmed_count = 0
        self.refused_count = 0
        self.recovered_count = 0  # open commits that a later owner had
        self._open: list[Open] = []
        self._ended: dict[int, bool] = {}  # by number of an open commit that later owners decided: whether it is stored

    def begun(self, owner: Owner, change: Change) -> None:
        """Take that an owner makes a commit."""
        if self.owner is not None and owner.epoch < self.owner.epoch:
            self._ended[change.number] = False  # whatever becomes of it, no later owner has it
        else:
            self._open.append(Open(owner, change))

    def confirmed(self, owner: Owner, change: Change) -> None:
        """Take that an owner tells publishers that a commit is stored. Raises Violation."""
        self.confirmed_count += 1
        decided = self._ended.pop(change.number, None)
        if decided is False:
            self.fail(f"{owner} confirms {change}, which {self.owner} does not have")
        if decided is None:
            self._close(change)
            self.state.apply(change)

    def refused(self, owner: Owner, change: Change) -> None:
        """Take that an owner tells publishers that a commit is not stored. Raises Violation."""
        self.refused_count += 1
        if self._ended.pop(change.number, None):
            self.fail(f"{owner} refuses {change}, which {self.owner} has")
        self._close(change)

    def took_over(self, owner: Owner, found: State) -> None:
        """Compare what an owner begins with. Raises Violation."""
        if self.owner is not None and owner.epoch <= self.owner.epoch:
            return  # a later one has begun already
        self.owners_count += 1
        stored = self._stored_of(found)
        if stored is None:
            self.fail(f"{owner} begins with a state that is none: {difference(found, self.state)}")
        for each in self._open:
            self._ended[each.change.number] = each in stored
        self.recovered_count += len(stored)
        self.owner, self.state, self._open = owner, found.copy(), []

    def has_open(self) -> bool:
        """Return whether the outcome of a commit is not known."""
        return bool(self._open)

    def check_copy(self, replica: str, found: State) -> None:
        """Compare what a standby has when it has everything, and nothing is open. Raises Violation."""
        stored = self._stored_of(found)
        if stored is None:
            self.fail(f"{replica} has another state than the owner: {difference(found, self.state)}")

    def _stored_of(self, found: State) -> list[Open] | None:
        """Return which of the open commits a state has; None when it is not what it should be."""
        if len(self._open) > OPEN_MAX:
            self.fail(f"{len(self._open)} commits are open at a time")
        for count in range(len(self._open), -1, -1):
            for chosen in combinations(self._open, count):
                state = self.state.copy()
                for each in chosen:
                    state.apply(each.change)
                if state == found:
                    return list(chosen)
        return None

    def fail(self, violation: str) -> NoReturn:
        """Note that a promise is broken, and raise Violation: whoever hears of that may swallow it."""
        self.note(violation)
        raise Violation(violation)

    def note(self, violation: str) -> None:
        """Note that a promise is broken."""
        self.violation = self.violation or violation

    def _close(self, change: Change) -> None:
        self._open = [each for each in self._open if each.change is not change]
