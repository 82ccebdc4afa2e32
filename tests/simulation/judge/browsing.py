"""Walks of browsers over HTTP through queues, page by page or as a stream, and the judge's rules for them.

Rules: a walk goes ahead in each partition, and shows no message twice; nothing is shown that the queue does not have:
that was not published, is not wanted, was refused, or was settled before its page was asked for. A walk that came to
the end has shown every message that was confirmed before it began, and is there still.
"""

from dataclasses import dataclass, field
from typing import Final

import orjson

from simulation.clients.http_responses import EVENTS, Answer
from simulation.judge.targets import DEAD, PARTITIONED, Message, Seen, Target, Violation
from simulation.judge.truth import Truth
from simulation.wires.mqtt_tap import number_of

OK: Final = 200
LATE_US: Final = 1_000_000  # what was confirmed so long before has arrived everywhere
SETTLED_US: Final = 50_000  # what was settled so long before is known to its queue


@dataclass(frozen=True, slots=True)
class Shown:
    """A message that a browser is shown."""

    number: int
    partition: int
    sequence: int


@dataclass(eq=False)
class Walk:
    """A walk through a queue, or through one of its partitions, over any number of connections."""

    queue: str
    target: Target | None
    partition: int | None  # None: all
    begun_us: int
    crashes: int
    is_stream: bool
    shown: dict[int, Shown] = field(default_factory=dict)  # by message
    after: int = 0  # where the next page begins, as far as the browser knows
    is_over: bool = False


@dataclass(eq=False)
class Page:
    """A request of a walk."""

    walk: Walk
    size: int
    after: int
    asked_us: int = 0  # when the node had read it
    last: dict[int, int] = field(default_factory=dict)  # by partition: the sequence shown last


class BrowseJudge:
    """Holds what browsers are shown against the truth."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth

    def begins(self, queue: str, partition: int | None, *, is_stream: bool) -> Walk:
        """A walk begins now."""
        truth = self._truth
        return Walk(queue, truth.targets.get(queue), partition, truth.now_us(), truth.course.crashes, is_stream)

    def answered(self, page: Page, answer: Answer) -> None:
        """The node wrote a page, or a part of a stream. Raises Violation."""
        walk, found = page.walk, shown_in(answer)
        target = walk.target
        if target is None or self._truth.targets.get(walk.queue) is not target:  # there may be one of its name again
            return
        if len(found) > page.size and not walk.is_stream:
            raise Violation(f"a page of {page.size} of {walk.queue} has {len(found)} messages")
        for each in found:
            self._is_shown(page, target, each)
        if answer.status == OK and not walk.is_stream and len(found) < page.size:
            self._check_complete(walk, target)

    def _is_shown(self, page: Page, target: Target, shown: Shown) -> None:
        walk, truth = page.walk, self._truth
        what = f"a browser of {walk.queue} was shown message {shown.number} at {shown.partition}.{shown.sequence}"
        if walk.partition not in (None, shown.partition):
            raise Violation(f"{what}, and had asked for partition {walk.partition}")
        # A partition that has retired may have a successor with its number while a stream goes on.
        is_same = not (walk.is_stream and target.kind == PARTITIONED)
        if is_same and shown.sequence <= max(page.after, page.last.get(shown.partition, 0)):
            raise Violation(f"{what}, which it has passed: {page.last}, {page.after}")
        page.last[shown.partition] = shown.sequence
        message = truth.course.messages.get(shown.number)
        if message is None:
            raise Violation(f"{what}, which nobody published")
        before = walk.shown.setdefault(shown.number, shown)
        is_again = before is not shown and (walk.is_stream or before != shown)
        if is_again and message.sent_count == 1 and target.kind != DEAD and not target.moves:
            raise Violation(f"{what}, and before that at {before.partition}.{before.sequence}")
        truth.check_belongs(target, message, "showed")
        seen = target.seen.get(shown.number)
        if seen is not None and message.sent_count == 1 and self._is_gone(seen, page.asked_us):
            raise Violation(f"{what}, which was settled {(page.asked_us - seen.answered_us) / 1_000_000} s before")

    def _is_gone(self, seen: Seen, asked_us: int) -> bool:
        """Return whether it was settled for good before a page was asked for."""
        is_settled = seen.is_committed or seen.settled_for_good == self._truth.course.crashes
        return is_settled and 0 <= seen.answered_us < asked_us - SETTLED_US

    def _check_complete(self, walk: Walk, target: Target) -> None:
        truth = self._truth
        if truth.course.crashes != walk.crashes or truth.course.store_faults or target.is_broken:
            return
        if target.kind == PARTITIONED and walk.partition is not None:
            return  # its messages are in any of them
        for message in truth.course.messages.values():
            if message.number not in walk.shown and self._has_to_be_shown(walk, target, message):
                raise Violation(f"a walk through {walk.queue} has ended, and has not shown {message}")

    def _has_to_be_shown(self, walk: Walk, target: Target, message: Message) -> bool:
        is_old = 0 < message.promised_us < walk.begun_us - LATE_US and message.sent_count == 1
        if not is_old or not target.owes(message) or target.may_have_given_up(message):
            return False
        seen = target.seen.get(message.number)
        return seen is None or seen.settled_tick == 0


def shown_in(answer: Answer) -> list[Shown]:
    """Return the messages of a page, or of a part of a stream."""
    if answer.status != OK:
        return []
    if answer.headers.get("content-type") == EVENTS:
        events = [event.split(b"\n") for event in answer.body.split(b"\n\n") if b"event: message" in event]
        lines = [line.removeprefix(b"data: ") for event in events for line in event if line.startswith(b"data: ")]
    else:
        lines = answer.body.splitlines()
    return [_of_line(orjson.loads(line)) for line in lines]


def _of_line(line: dict[str, object]) -> Shown:
    return Shown(number_of(str(line["payload"]).encode()), int(str(line["partition"])), int(str(line["sequence"])))
