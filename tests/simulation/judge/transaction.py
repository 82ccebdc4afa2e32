"""The publishes and settlements of one AMQP transaction, and the judge's conclusions from its end.

Rules: an accepted commit holds for ever, over crashes too: its publishes count as confirmed, and messages that it
settled never come again. After a rollback its publishes never come, and messages that it settled are still due. If its
client never got the outcome, all of it has taken effect or nothing: in a network at all brokers. What it publishes may
be for any of them, and what it settles is of its client's broker, or it is rolled back.
"""

from dataclasses import dataclass

from simulation.judge.targets import DEAD, QUEUE_KINDS, Holder, Message, Target, Violation
from simulation.judge.truth import Truth

OPEN, ASKED, OVER, UNHEARD = "open", "asked", "over", "unheard"
ROLLED_BACK = 0x97  # as a reason code, what a refusal is to the truth


@dataclass(eq=False)
class Taken:
    """A delivery that the transaction settles."""

    target: Target
    number: int
    count: int  # deliveries when it was settled
    tick_before: int = 0  # of a settlement by somebody else, when the transaction was discharged
    tick: int = 0


class Transaction:
    """One transaction. `commits` is what its client will ask for."""

    def __init__(self, truth: Truth, holder: Holder, *, commits: bool) -> None:
        self.state = OPEN
        self.messages: list[Message] = []
        self.settled: list[Taken] = []
        self._truth = truth
        self._holder = holder
        self.commits = commits
        self.settles_elsewhere = False  # a message of a queue of another broker: it can but be rolled back
        self._crashes = 0  # of the node, when it was discharged

    def publishes(self, publisher: str, key: str, topic: str) -> Message:
        """A message is published in it, and comes to nobody before it is committed."""
        message = self._truth.sent(publisher, key, topic, 1, withheld=True)
        message.is_transacted = True
        self.messages.append(message)
        return message

    def settles(self, target: Target, number: int) -> None:
        """A delivery is accepted in it."""
        self.settled.append(Taken(target, number, target.seen[number].count))

    def discharged(self) -> None:
        """Its client has asked for its end: what that is, is seen at any moment from now on."""
        self.state = ASKED
        self._crashes = self._truth.course.crashes
        for taken in self.settled:
            taken.target.seen[taken.number].held_cuts = -1  # given back, if it is rolled back
        if not self.commits:
            return
        for message in self.messages:
            message.withheld = False
        for taken in self.settled:
            seen = taken.target.seen[taken.number]
            taken.tick_before = seen.settled_tick
            self._truth.settled(taken.target, taken.number, self._holder, for_good=False, rejected=False)
            taken.tick = seen.settled_tick

    def is_doomed(self) -> None:
        """One of its publishes was denied: it can but be rolled back, and what it settles may go to others at once."""
        for taken in self.settled:
            taken.target.seen[taken.number].held_cuts = -1

    def answered(self, *, is_accepted: bool) -> None:
        """The node wrote the outcome of its discharge. Raises Violation."""
        self.state = OVER
        if not self.commits:
            if not is_accepted:
                raise Violation("a transaction was not rolled back as its client asked")
            return
        if is_accepted and self.settles_elsewhere:
            raise Violation("a transaction was committed that settles messages of another broker's queue")
        for message in self.messages:
            self._truth.promised(message, 0 if is_accepted else ROLLED_BACK)
        for taken in self.settled:
            if is_accepted:
                self._truth.settled_by_commit(taken.target, taken.number, self._holder)
            else:
                self._truth.comes_back(taken.target, taken.number, taken.tick, taken.tick_before)

    def unheard(self) -> None:
        """Its connection is no more. What was not discharged is rolled back."""
        self.state = UNHEARD if self.state == ASKED and self.commits else OVER

    def reckon(self) -> None:
        """All was drained: it has happened, or not, and that is true of all of it. Raises Violation."""
        if self.state != UNHEARD or not self.messages or self._truth.course.store_faults:
            return
        wanting = [
            (target, message)
            for message in self.messages
            for truth in (self._truth, *self._truth.others)
            for target in truth.targets.values()
            if target.kind in QUEUE_KINDS and target.gets_for_sure(message)
        ]
        came = [each for each in wanting if each[1].number in each[0].seen]
        if not wanting or (came and not any(self._is_proof(*each) for each in came)):
            return
        if came and self.settles_elsewhere:
            raise Violation(f"{came[0][1]} came, of a transaction that settles messages of another broker's queue")
        if came and len(came) < len(wanting):
            missing = next(each for each in wanting if each not in came)
            raise Violation(f"of a transaction {came[0][1]} came, and {missing[1]} not into {missing[0].name}")
        for taken in self.settled:
            if not came:
                self._truth.comes_back(taken.target, taken.number, taken.tick, taken.tick_before)
            elif self._came_again(taken):
                raise Violation(f"{taken.target.name} delivered message {taken.number} again; a commit had settled it")

    def _is_proof(self, target: Target, message: Message) -> bool:
        """Return whether it was delivered because the store has it: a crash may have undone what came before.

        It crosses no link before it is stored.
        """
        if target.broker != self._truth.broker:
            return True
        return self._truth.course.crashes == self._crashes or target.seen[message.number].crashes > self._crashes

    def _came_again(self, taken: Taken) -> bool:
        """Return whether a message came after the commit had settled it."""
        target, seen = taken.target, taken.target.seen[taken.number]
        if (
            target.kind == DEAD
            or target.forgot_tick > taken.tick
            or self._truth.course.messages[taken.number].sent_count > 1
        ):
            return False
        return seen.crashes > self._crashes or (
            self._truth.course.crashes == self._crashes and seen.count > taken.count
        )
