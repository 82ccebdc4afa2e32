"""One worker of a load: several lanes on one epoll loop, for all protocols.

All ends of a lane share a worker, so the end-to-end flow limit is a subtraction, not a message between processes. The
modules `mqtt`, `amqp`, `flow` and `http` implement the ends; `bench.cases.load_processes` starts and reads the workers.
"""

import select
import time
from array import array
from typing import Final, Protocol, final

from bench.load.outcome import LoadReport
from bench.load.plan import LoadPlan
from bench.load.tally import Tally
from bench.wire.connections import RECEIVE_BYTES, Connection

POLL_S: Final = 0.05
DRAIN_S: Final = 20.0  # without a byte after the stop: what is missing is lost
STALL_S: Final = 60.0  # without a byte in a load that should run: the broker has stalled


class Progress(Protocol):
    """The interface for a worker's progress, and for its start and stop."""

    def count(self, published: int, received: int) -> None:
        """Make the totals visible to the measuring process."""

    def stopped(self) -> bool:
        """Return whether to stop publishing."""


class Count(Protocol):
    """The count of received messages, of one subscriber or of several that share them."""

    received: int
    duplicated: int
    disordered: int
    read_singly: int


class End(Protocol):
    """One client of a lane."""

    connection: Connection
    lane: "Lane"

    def on_readable(self, buffer: bytearray, view: memoryview) -> int:
        """Read data; return the number of new messages."""


class SendingEnd(End, Protocol):
    """A client of a lane that publishes."""

    published: int

    @property
    def confirmed(self) -> int:
        """Messages that the broker has confirmed."""

    def publish(self, count: int) -> int:
        """Publish up to `count` messages; return how many."""


@final
class Lane:
    """Publishers, their destination, and subscribers. One of the two sides may be absent."""

    def __init__(self, plan: LoadPlan, number: int) -> None:
        self.plan = plan
        self.number = number
        self.publishers: list[SendingEnd] = []
        self.audience: list[Count] = []  # each has to get everything: a subscriber, or several that compete
        self.shared_tally: Tally | None = None  # of subscribers that compete
        self.touched = False
        self._batch_min = max(1, plan.window // 4)  # a refill for each few confirmations would be a call for each

    @property
    def published(self) -> int:
        """Messages of all publishers."""
        return sum([publisher.published for publisher in self.publishers])

    @property
    def confirmed(self) -> int:
        """Messages that the broker has confirmed to them."""
        return sum([publisher.confirmed for publisher in self.publishers])

    @property
    def expected(self) -> int:
        """The number of messages that each receiver should have."""
        return self.published if self.publishers else self.plan.messages_per_lane or 0

    def refill(self) -> int:
        """Publish as many messages as the flow limit permits; return how many."""
        publishers = self.publishers
        if not publishers:
            return 0
        room = self._arrived() + self.plan.window - self.published
        batch_min = self._batch_min
        if self.plan.messages_per_lane is not None:
            left = self.plan.messages_per_lane * len(publishers) - self.published
            room = min(room, left)
            batch_min = min(batch_min, left)
        return self._share(room) if room >= max(batch_min, 1) else 0

    def publish_due(self, elapsed_s: float, rate: float) -> int:
        """Publish the messages that are due at a rate; return how many."""
        room = int(elapsed_s * rate) - self.published
        return self._share(room) if room > 0 else 0

    def complete(self) -> bool:
        """Return whether no message is in flight or left to publish."""
        plan = self.plan
        if self.publishers:
            if plan.messages_per_lane is not None and self.published < plan.messages_per_lane * len(self.publishers):
                return False
            if plan.qos and self.confirmed < self.published:
                return False
        return all(count.received >= self.expected for count in self.audience)

    def report(self) -> LoadReport:
        """Return the report."""
        audience = self.audience
        return LoadReport(
            published=self.published,
            confirmed=self.confirmed,
            expected=self.expected * len(audience),
            received=sum([count.received for count in audience]),
            duplicated=sum([count.duplicated for count in audience]),
            disordered=sum([count.disordered for count in audience]),
            read_singly=sum([count.read_singly for count in audience]),
        )

    def _share(self, room: int) -> int:
        each, rest = divmod(room, len(self.publishers))
        return sum([end.publish(each + (place < rest)) for place, end in enumerate(self.publishers)])

    def _arrived(self) -> int:
        plan = self.plan
        if not self.audience:
            return self.confirmed
        arrived = min([count.received for count in self.audience])
        # One message per wake-up means the subscriber's wake-up: PUBACK may come after the next message left.
        return min(arrived, self.confirmed) if plan.qos and plan.window > 1 else arrived


@final
class Worker:
    """Some lanes of a plan, connected and ready to run."""

    def __init__(self, plan: LoadPlan, poll: select.epoll, lanes: list[Lane], ends: list[End]) -> None:
        self.lanes = lanes
        self.poll = poll
        self._plan = plan
        self._ends = {end.connection.socket.fileno(): end for end in ends}
        self._published = 0
        self._received = sum([count.received for lane in lanes for count in lane.audience])
        self._rate = None if plan.rate is None else plan.rate / plan.lanes  # of a lane
        self._latencies_s = array("d")  # of a load with a rate, whose lanes have an audience of one
        self._begun_s = 0.0

    def run(self, progress: Progress) -> LoadReport:
        """Run until the plan is complete, the load is stopped and drained, or there is no more progress."""
        buffer = bytearray(max(RECEIVE_BYTES, 4 * self._plan.payload_bytes))
        view = memoryview(buffer)
        last_s = self._begun_s = time.monotonic()
        # TLS or WebSocket may have read more, while a client was set up, than it was asked for.
        self._serve([(fd, select.EPOLLIN) for fd in self._ends], buffer, view)
        touched = self.lanes
        while True:
            stopped = progress.stopped()
            if not stopped:
                self._publish(touched)
            events = self.poll.poll(0.0 if self._rate is not None and not stopped else POLL_S)
            if events:
                last_s = time.monotonic()
                touched = self._serve(events, buffer, view)
                progress.count(self._published, self._received)
                continue
            touched = []
            if (stopped or self._plan.messages_per_lane is not None) and all(lane.complete() for lane in self.lanes):
                break
            if time.monotonic() - last_s >= (DRAIN_S if stopped else STALL_S):
                break
        report = LoadReport(latencies_s=self._latencies_s)
        for lane in self.lanes:
            report = report.plus(lane.report())
        return report

    def ends(self) -> list[End]:
        """Return all clients."""
        return list(self._ends.values())

    def add(self, end: End) -> None:
        """Add a client."""
        self._ends[end.connection.socket.fileno()] = end

    def remove(self, end: End) -> None:
        """Close a client's connection without DISCONNECT."""
        del self._ends[end.connection.socket.fileno()]
        end.connection.close()

    def close(self) -> None:
        """Close every connection without DISCONNECT."""
        for end in self._ends.values():
            end.connection.close()
        self.poll.close()

    def _publish(self, touched: list[Lane]) -> None:
        if self._rate is not None:  # a core of its own keeps the time: epoll's milliseconds are too coarse for it
            elapsed_s = time.monotonic() - self._begun_s
            for place, lane in enumerate(self.lanes):
                self._published += lane.publish_due(elapsed_s - self._offset_s(place), self._rate)
            return
        for lane in touched:
            lane.touched = False
            self._published += lane.refill()

    def _serve(self, events: list[tuple[int, int]], buffer: bytearray, view: memoryview) -> list[Lane]:
        touched: list[Lane] = []
        for fd, mask in events:
            end = self._ends[fd]
            if mask & select.EPOLLOUT:
                end.connection.flush()
            if mask & ~select.EPOLLOUT:
                count = end.on_readable(buffer, view)
                self._received += count
                if count and self._rate is not None:
                    self._note_latencies(end.lane, count, self._rate)
            if not end.lane.touched:
                end.lane.touched = True
                touched.append(end.lane)
        return touched

    def _note_latencies(self, lane: Lane, count: int, rate: float) -> None:
        """Record the latencies of the last messages, from the time when they were due."""
        begun_s = self._begun_s + self._offset_s(self.lanes.index(lane))
        last = lane.audience[0].received
        first = max(last - count, int(self._plan.warm_up_s * rate))
        now_s = time.monotonic()
        self._latencies_s.extend([now_s - begun_s - (number + 1) / rate for number in range(first, last)])

    def _offset_s(self, place: int) -> float:
        """Return the delay of a lane's start, which spreads the messages of all lanes over time."""
        return 0.0 if self._rate is None else place / (self._rate * len(self.lanes))
