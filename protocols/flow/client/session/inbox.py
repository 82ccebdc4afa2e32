"""The state of a consumer: unsettled deliveries, credit, and settlements to send.

Flow: consuming. Two limits are independent: `window` and `window_bytes` bound what waits here for the program, and are
enforced by credit; `unsettled_max` bounds what the program holds in total, and is enforced by the gateway. A broken
connection takes all of it away: unsettled messages are delivered again.
"""

from collections import deque
from typing import Final, final

from sluicegate.messaging.message.outcomes import RELEASED
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.protocols.flow.client.errors import ConsumerEnded, FlowClientError
from sluicegate.protocols.flow.client.events import (
    ClientEvent,
    FlowActivated,
    FlowDeactivated,
    FlowInterrupted,
    PartitionsChanged,
    SettledTooLate,
)
from sluicegate.protocols.flow.client.session.flow import ENDED, OPEN, QueueFlow
from sluicegate.protocols.flow.codec.frames.deliver import Delivered
from sluicegate.protocols.flow.codec.frames.flow import ACTIVE, Bind, Bound, FlowState
from sluicegate.protocols.flow.codec.frames.partition import DRAINING, Partitions, PartitionsAck, PartitionState
from sluicegate.protocols.flow.codec.frames.session import Error
from sluicegate.protocols.flow.codec.frames.settle import OUTCOME_EXTEND, Credit, Settle, Settled
from sluicegate.protocols.flow.codec.limits import RANGES_MAX
from sluicegate.protocols.flow.engine.engine import FlowEngine

OVERHEAD_BYTES: Final = 200  # of a delivery that waits here, beside its payload


@final
class Inbox(QueueFlow):
    """The core of one consumer.

    Invariants: what waits in `_line` is held, unless the gateway took it back; the limit of credit is at most `window`
    above what has left the line.
    """

    def __init__(
        self,
        queue: str,
        *,
        window: int,
        window_bytes: int,
        unsettled_max: int,
        renew_every_ms: int,
        selector: str = "",
        acknowledges: bool = False,
    ) -> None:
        super().__init__(queue)
        self.window = window
        self.window_bytes = window_bytes
        self.unsettled_max = unsettled_max  # requested; after the bind the value in force
        self.renew_every_ms = renew_every_ms  # 0: locks are renewed only by the program
        self.is_active = False
        self.bind_count = 0  # which bind deliveries came by
        self.held = RangeSet()  # delivery ids that came and are not settled
        self.too_late_count = 0  # settled when they were not held any more
        self.events: list[ClientEvent] = []  # for the owner to take
        self.partitions: tuple[PartitionState, ...] = ()  # of a queue that hands over by our word
        self._asked_unsettled_max = unsettled_max
        self._selector = selector  # of the messages it wants; empty: all
        self._acknowledges = acknowledges  # the program acknowledges the release of partitions
        self._list_number = 0  # of those partitions
        self._list_acknowledged = 0
        self._wants_to_let_go = False  # acknowledged by the program, and not sent yet
        self._line_bytes = 0
        self._received_through = 0  # the highest delivery id that has come
        self._granted = 0  # the highest that may come
        self._is_recalled = False  # credit was taken back, as too many bytes lie here
        self._recalls_unanswered = 0
        self._outcomes: list[tuple[int, int, int]] = []  # first and last delivery id, outcome; not yet sent
        self._renewed_ms = 0  # when it last was, or had no need to be

    # --- the program's side ---

    def take(self, count_max: int) -> list[Delivered]:
        """Return up to so many deliveries, in order."""
        line = self._line
        count = min(count_max, len(line))
        taken = [line.popleft() for _ in range(count)]
        for each in taken:
            self._line_bytes -= len(each.payload) + OVERHEAD_BYTES
        if taken and self._wants_credit():
            self.is_dirty = True
        return taken

    def settle(self, bind_number: int, first: int, last: int, outcome: int) -> int:
        """Say what became of deliveries; return how many of them are not held any more, which then stay as they are.

        `bind_number` is the bind that they came by.
        """
        late_count = last - first + 1
        if bind_number == self.bind_count and self.phase == OPEN:
            for start, end in self.held.within(first, last + 1):
                late_count -= end - start
                self._queue_outcome(start, end - 1, outcome)
        self.too_late_count += late_count
        return late_count

    def renew_all(self) -> None:
        """Hold on to everything that is held."""
        for start, end in self.held.ranges():
            self._queue_outcome(start, end - 1, OUTCOME_EXTEND)

    def _queue_outcome(self, first: int, last: int, outcome: int) -> None:
        if outcome != OUTCOME_EXTEND:
            self.held.remove(first, last + 1)
        self.is_dirty = True
        outcomes = self._outcomes
        if outcomes and outcomes[-1][2] == outcome and outcomes[-1][1] + 1 == first:
            outcomes[-1] = (outcomes[-1][0], last, outcome)
        else:
            outcomes.append((first, last, outcome))

    # --- the gateway's side ---

    def request(self, request_id: int, flow_id: int) -> bytes:
        """Return BIND, with credit from the start."""
        self._granted = self.window
        return Bind(
            flow_id,
            request_id,
            self.queue,
            self._asked_unsettled_max,
            self._granted,
            self._acknowledges,
            self._selector,
        ).encode()

    def closing(self, request_id: int) -> bytes:
        """Return UNBIND, after pending settlements."""
        return b"".join(self._settlements()) + super().closing(request_id)

    def opened(self, frame: Bound) -> None:
        """Begin anew: delivery ids count from 1."""
        self.phase = OPEN
        self.was_open = True
        self.bind_count += 1
        self.unsettled_max = frame.unsettled_max
        self.incarnation = frame.incarnation
        self._received_through = 0
        self._list_number = self._list_acknowledged = 0
        self._is_recalled = False
        self._recalls_unanswered = 0
        self.has_news = True

    def delivered(self, deliveries: list[Delivered]) -> None:
        """Keep what has come, until the program takes it."""
        line = self._line
        line_bytes = 0
        for each in deliveries:
            line_bytes += len(each.payload) + OVERHEAD_BYTES
        line.extend(deliveries)
        self._received_through = deliveries[-1].delivery_id
        self._line_bytes += line_bytes
        self.held.add(deliveries[0].delivery_id, deliveries[-1].delivery_id + 1)
        self.has_news = True
        if self._line_bytes > self.window_bytes and not self._is_recalled:
            self.is_dirty = True

    def credited(self, frame: Credit) -> None:
        """Take the answer to a recall: nothing comes behind it. An older one does not know of later credit."""
        self._recalls_unanswered -= 1
        if self._is_recalled and self._recalls_unanswered == 0:
            self._granted = frame.delivery_id_max
            self.is_dirty = self._wants_credit()

    def stands(self, frame: FlowState) -> None:
        """Take over whether the flow is active."""
        is_active = frame.state == ACTIVE
        if is_active != self.is_active:
            self.is_active = is_active
            self.events.append(FlowActivated(self.queue) if is_active else FlowDeactivated(self.queue))
        self.has_news = True

    def listed(self, frame: Partitions) -> None:
        """Take over which partitions it has. What has come of those that drain and was not taken goes back at once."""
        self.partitions = frame.partitions
        self._list_number = frame.number
        draining = {each.partition for each in frame.partitions if each.state == DRAINING}
        if draining and self._line:
            kept: deque[Delivered] = deque()
            for each in self._line:
                if each.partition in draining:
                    self._line_bytes -= len(each.payload) + OVERHEAD_BYTES
                    self._queue_outcome(each.delivery_id, each.delivery_id, RELEASED)
                else:
                    kept.append(each)
            self._line = kept
        self.events.append(PartitionsChanged(self.queue, frame.partitions))
        self.has_news = True

    def acknowledge_partitions(self) -> None:
        """Release every draining partition. The program has finished its state for them."""
        if self._list_acknowledged < self._list_number and self.phase == OPEN:
            self._wants_to_let_go = True
            self.is_dirty = True

    def not_held(self, frame: Settled) -> None:
        """Learn that deliveries were not this flow's any more when they were settled."""
        count = 0
        for first, last in frame.not_held:
            count += last - first + 1
            self.held.remove(first, last + 1)
        self.too_late_count += count
        self.events.append(SettledTooLate(self.queue, count))
        self.has_news = True

    def interrupted(self, reason: str) -> None:
        """Let go of everything that came by this bind: it is the queue's again."""
        if self.phase == OPEN:
            self.events.append(FlowInterrupted(self.queue, reason, self.held.total))
        super().interrupted(reason)
        self.is_active = False
        self.held = RangeSet()
        self.partitions = ()
        self._wants_to_let_go = False
        self._line.clear()
        self._line_bytes = 0
        self._outcomes.clear()
        self.has_news = True

    def ended_by(self, frame: Error) -> FlowClientError:
        """Return the error for one with which the gateway ended the flow."""
        return ConsumerEnded(frame.code, frame.text)

    # --- what there is to say ---

    def tick(self, now_ms: int) -> None:
        """Renew the locks of held deliveries when that is due."""
        if not self.held:
            self._renewed_ms = now_ms
        elif self.renew_every_ms and now_ms - self._renewed_ms >= self.renew_every_ms:
            self._renewed_ms = now_ms
            self.renew_all()

    def pump(self, engine: FlowEngine) -> None:
        """Send settlements and credit."""
        self.is_dirty = False
        if self.phase != OPEN:
            return
        for frame in self._settlements():
            engine.send(frame)
        if self._wants_to_let_go:  # behind the settlements that come before it
            self._wants_to_let_go = False
            self._list_acknowledged = self._list_number
            engine.send(PartitionsAck(self.flow_id, self._list_number).encode())
        if self._line_bytes > self.window_bytes:
            if not self._is_recalled:
                self._is_recalled = True
                self._recalls_unanswered += 1
                engine.send(Credit(self.flow_id, 0, True, False).encode())
        elif self._wants_credit():
            self._is_recalled = False
            self._granted = self._credit()
            engine.send(Credit(self.flow_id, self._granted, False, False).encode())

    def _credit(self) -> int:
        """Return the limit that the room here allows: `window` more than what has left the line."""
        return self._received_through - len(self._line) + self.window

    def _wants_credit(self) -> bool:
        """Whether the limit of credit is worth a frame: by half a window, or once there is room for bytes again."""
        rise = self._credit() - self._granted
        if self._is_recalled:
            return rise > 0 and self._line_bytes <= self.window_bytes // 2
        return rise > 0 and 2 * rise >= self.window

    def _settlements(self) -> list[bytes]:
        outcomes, self._outcomes = self._outcomes, []
        return [
            Settle(self.flow_id, 0, tuple(outcomes[at : at + RANGES_MAX])).encode()
            for at in range(0, len(outcomes), RANGES_MAX)
        ]

    def check(self) -> None:
        """Assert the invariants."""
        self.held.check()
        assert self._granted <= self._credit() or self._is_recalled or self.phase == ENDED
        assert self._line_bytes == sum([len(each.payload) + OVERHEAD_BYTES for each in self._line])
        ids = [each.delivery_id for each in self._line]
        assert ids == sorted(set(ids)), "delivery ids ascend"
        assert not ids or ids[-1] <= self._received_through <= self._granted

    def __repr__(self) -> str:
        return f"Inbox({self.queue!r}, {len(self._line)} waiting, {self.held!r})"
