"""What is promised of a whole network, beside what each broker promises: one member of a group gets a message."""

from typing import Final

from simulation.judge.targets import GROUP, Target, Violation
from simulation.judge.truth import Truth
from simulation.machine.virtual_loop import MONOTONIC_START_US, WALL_START_MS
from simulation.network.clients.direct_clients import DirectBook
from simulation.wires.mqtt_tap import number_of
from sluicegate.storage.interface import CommitJob
from sluicegate.storage.records.journal import decode_journal_record

ON_ITS_WAY_US: Final = 5_000_000  # between two brokers; then a link that brings nothing is dead
EARLY_US: Final = 20_000  # clocks count milliseconds, at each broker


class LinkJudge:
    """Looks at the judges of all brokers, and at what these store."""

    def __init__(self) -> None:
        self.direct = DirectBook()
        self.truths: dict[str, Truth] = {}  # by broker

    def knows(self, truth: Truth) -> None:
        """A broker starts, perhaps for the first time."""
        if truth.broker not in self.truths:
            self.truths[truth.broker] = truth
            for each in self.truths.values():
                each.others = [other for other in self.truths.values() if other is not each]

    def check(self) -> None:
        """Raise Violation when members at two brokers got one message of a shared subscription."""
        truths = list(self.truths.values())
        groups: list[Target] = [
            target for truth in truths for target in (*truth.targets.values(), *truth.ended) if target.kind == GROUP
        ]
        messages = truths[0].course.messages
        seen_by: dict[int, str] = {}
        for group in groups:
            for number in group.seen:
                before = seen_by.setdefault(number, group.broker)
                message = messages[number]
                if before != group.broker and message.sent_count == 1 and not message.session_lost:
                    raise Violation(f"members of the group at {before} and at {group.broker} got {message}")

    def committed(self, truth: Truth, job: CommitJob, *, ahead_ms: int, dead: set[int]) -> None:
        """Judge a commit of one broker, whose clock shows so much more than that of the simulation.

        `dead` are its partitions with dead messages, which have another life.
        """
        if job.record is None:
            return
        for batch, matches in decode_journal_record(job.record).entries:
            if all(each.partition_id in dead for each in matches):
                continue
            for payload, headers in zip(batch.payloads(), batch.headers() or [None] * batch.count, strict=True):
                number = number_of(payload)
                if headers is not None and headers.expires_at_ms and number not in truth.stored:
                    shown_ms = headers.expires_at_ms - ahead_ms - WALL_START_MS
                    _check_life(truth, number, MONOTONIC_START_US + shown_ms * 1_000)
                truth.stored.add(number)
                message = truth.course.messages.get(number)
                if message is not None:
                    message.arrived_tick.setdefault(truth.broker, truth.next_tick())


def _check_life(truth: Truth, number: int, expires_us: int) -> None:
    """A message has so much of its life left as its publisher gave it, less the time that it spent at all brokers."""
    message = truth.course.messages.get(number)
    if message is None or message.broker == truth.broker or not message.expiry_s or message.sent_count > 1:
        return
    late_us = expires_us - message.sent_us - message.expiry_s * 1_000_000
    # What a named publisher sent may have come to its broker at any time until that was confirmed.
    waited_us = (message.promised_us or truth.now_us()) - message.sent_us if message.is_known else 0
    if not -EARLY_US <= late_us <= ON_ITS_WAY_US + waited_us:
        raise Violation(f"{truth.broker} stored {message} with {late_us / 1_000_000} s more to live than it has")
