"""A client of HTTP that browses queues: it walks through them page by page, over connections that come and go."""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final

import httptools

from simulation.clients.client import OFFLINE, ONLINE, Later
from simulation.clients.connected_client import Wired
from simulation.clients.http_responses import EVENTS, Answer, AnswerReader
from simulation.judge.browsing import BrowseJudge, Page, Walk, shown_in
from simulation.judge.targets import Violation
from simulation.judge.truth import Truth
from simulation.wires.memory_network import Wire

OK, BAD, TIMEOUT, CONFLICT, UNAVAILABLE = 200, 400, 408, 409, 503
EXPECTED: Final = (OK, BAD, CONFLICT, UNAVAILABLE)  # BAD: the queue is gone; CONFLICT: meanwhile
PAGES: Final = (1, 2, 5, 20, 100, 1000)  # messages of a page
STREAM_SHARE, PARTITION_SHARE = 0.2, 0.7
PARTITIONS_MAX: Final = 8
PAUSE_US_MAX: Final = 2_000_000  # between two pages

Dial = Callable[["Browser", "BrowseTap"], Wire]


class BrowseTap:
    """One connection of a browser, seen at the node's end. `sent` are its requests."""

    def __init__(self, judge: BrowseJudge, truth: Truth, sent: list[Page]) -> None:
        self._judge = judge
        self._truth = truth
        self._sent = sent
        self._read_count = 0
        self._line: deque[Page] = deque()  # read, and not answered
        self._requests = httptools.HttpRequestParser(self)
        self._answers = AnswerReader()

    def read(self, data: bytes) -> None:
        """The node reads bytes, cut anywhere."""
        self._requests.feed_data(data)

    def on_message_complete(self) -> None:
        """A request is whole."""
        page = self._sent[self._read_count]
        self._read_count += 1
        page.asked_us = self._truth.now_us()
        self._line.append(page)

    def written(self, data: bytes) -> None:
        """The node writes."""
        for answer in self._answers.feed(data):
            if not self._line:
                if answer.status != TIMEOUT:
                    raise Violation(f"an answer came to a browser that had asked nothing: {answer}")
                return
            if answer.status not in EXPECTED:
                raise Violation(f"a browser of {self._line[0].walk.queue} was answered with {answer}")
            self._judge.answered(self._line[0], answer)
            if answer.is_whole:
                self._line.popleft()

    def ended(self) -> None:
        """The node closes the connection, or has lost it: a walk goes on over another one."""


class Browser(Wired):
    """One browser, with one connection after the other, and one walk after the other."""

    def __init__(self, name: str, truth: Truth, *, dial: Dial, later: Later) -> None:
        super().__init__()
        self.name = name
        self.state = OFFLINE
        self.rng = Random(0)  # seeded anew by each step
        self._truth = truth
        self._judge = BrowseJudge(truth)
        self._dial = dial
        self._later = later
        self._walk: Walk | None = None
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._sent: list[Page] = []
        self._answered_count = 0
        self._answers = AnswerReader()

    # --- what it is told to do ---

    @property
    def is_waiting(self) -> bool:
        """Return whether a request was not answered; a stream is never at its end."""
        waits = self._answered_count < len(self._sent)
        return self._wire is not None and waits and not self._sent[-1].walk.is_stream

    def connect(self) -> None:
        """Open a connection, and go on with a walk that was not at its end."""
        self._begin_anew()
        self.state = ONLINE
        self._wire = self._dial(self, BrowseTap(self._judge, self._truth, self._sent))
        walk = self._walk
        if walk is not None and not walk.is_over and not walk.is_stream:
            self._ask(walk)

    def walk(self, queue: str, *, is_partitioned: bool) -> None:
        """Begin a walk, once the one before has come to its end."""
        if self._wire is None or self.is_waiting or (self._sent and self._sent[-1].walk.is_stream):
            return
        if self._walk is not None and not self._walk.is_over:
            self._ask(self._walk)
            return
        rng = self.rng
        is_part = is_partitioned and rng.random() < PARTITION_SHARE
        partition = rng.randrange(PARTITIONS_MAX) if is_part else None
        self._walk = self._judge.begins(queue, partition, is_stream=rng.random() < STREAM_SHARE)
        self._ask(self._walk)

    def give_up(self) -> None:
        """End the walk, wherever it is."""
        if self._walk is not None:
            self._walk.is_over = True
        if self._sent and self._sent[-1].walk.is_stream:
            self.cut()

    def close(self) -> None:
        """Close the connection in good order."""
        if self._wire is not None:
            self._wire.finish()
            self._gone()

    def vanish(self) -> None:
        """Be gone, and let the node find out: behind a stream it would not, which writes next to nothing."""
        is_stream = bool(self._sent) and self._sent[-1].walk.is_stream
        self.cut() if is_stream else super().vanish()

    def tick(self) -> None:
        """Time goes on; a browser need not show that it is alive."""

    # --- what comes ---

    def received(self, data: bytes) -> None:
        """Handle pages of the node."""
        for answer in self._answers.feed(data):
            if self._answered_count == len(self._sent):
                continue
            page = self._sent[self._answered_count]
            self._answered_count += answer.is_whole
            if answer.is_whole:
                self._goes_on(page, answer)

    def disconnected(self) -> None:
        """The node, or the network, has ended the connection."""
        self._gone()

    def _goes_on(self, page: Page, answer: Answer) -> None:
        """Ask for the next page of a walk, unless this was the last one, or one of several partitions."""
        walk, found = page.walk, shown_in(answer)
        is_one = len({each.partition for each in found}) == 1
        if walk.is_stream or len(found) < page.size or not is_one:
            walk.is_over = True
        if walk.is_over or walk is not self._walk:
            return
        walk.after = found[-1].sequence
        wire = self._wire
        self._later(self.rng.randrange(PAUSE_US_MAX), lambda: self._ask(walk) if self._wire is wire else None)

    # --- what it is made of ---

    def _ask(self, walk: Walk) -> None:
        if self._wire is None or walk.is_over or self.is_waiting:
            return
        page = Page(walk, self.rng.choice(PAGES), walk.after)
        self._sent.append(page)
        asked = f"browse=true&max={page.size}&after={page.after}"
        if walk.partition is not None:
            asked += f"&partition={walk.partition}"
        accept = f"Accept: {EVENTS}\r\n" if walk.is_stream else ""
        path = f"/QUEUE/{walk.queue.replace('#', '%23')}?{asked}"
        self._wire.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{accept}\r\n".encode())

    def _gone(self) -> None:
        if self._walk is not None and self._walk.is_stream:
            self._walk.is_over = True
        self._wire = None
        self.state = OFFLINE
