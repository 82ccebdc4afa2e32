"""The way in of guaranteed messages of a neighbor: each is stored once, in order, and answered when it is.

The store gets what has arrived in one go, and the rest when it has decided: that would be in a later commit anyway. So
if it refuses something, nothing that came behind is stored before that, and messages of a key keep their order.

The state is that of the store: `messaging.network.sequences`. Without room in the message VPN, the node or the disk the
messages wait here and are tried again, which the neighbor notices by its window.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Final, final

from sluicegate.actors.messages.data import Confirmed, PublishFailed
from sluicegate.actors.publishing.link_publisher import NO_ROOM, STORING, LinkPublisher
from sluicegate.actors.runtime.runtime import ActorCell, TimerHandle
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.messaging.message.ranges import RangeSet
from sluicegate.messaging.network.sequences import LinkSequences
from sluicegate.messaging.network.times import arriving
from sluicegate.messaging.observability.events import SYSTEM_LINK_WAITS, SYSTEM_LINK_WAITS_CLEAR, EventKind
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.codes import PeerViolation
from sluicegate.protocols.flow.codec.frames.link import LinkStore, LinkStored
from sluicegate.protocols.flow.codec.limits import RANGES_MAX
from sluicegate.protocols.flow.links import LinkWire
from sluicegate.protocols.network.guaranteed.kept import KeptLink

log = logging.getLogger("sluicegate.network")

TRY_AGAIN_MS: Final = 250
TRIES_BEFORE_EVENT: Final = 4  # without room; a moment of it is no event
WAITING_MAX: Final = 131_072  # messages that wait for room: four windows of a link queue, of which some may come again
_RANGE_BYTES: Final = 16
_ANSWER_BYTES: Final = 64  # of LINK_STORED beside its ranges


@final
class LinkArrivals(Address):
    """Guaranteed messages of one neighbor, in one message VPN. It outlives connections, and links that begin anew.

    It is the address to which the store answers: what it has been given is decided whether a link runs or not.
    """

    def __init__(self, kept: KeptLink, publisher: LinkPublisher, *, vpn: str, was_clean: bool) -> None:
        """`was_clean`: the node was stopped in order, before this life of it."""
        self.received_count = 0  # messages, those that came again included
        self.repeated_count = 0  # messages that were stored already
        self.waiting_count = 0  # messages that wait for room
        self._cell: ActorCell | None = None  # of the link
        self._ask_flush: Callable[[], None] = _nothing
        self._kept = kept
        self._vpn = vpn
        self._publisher = publisher
        self._wire: LinkWire | None = None
        self._flow_id = 0
        self._ranges_max = RANGES_MAX  # in one answer: the neighbor takes no larger frames
        self._answers = RangeSet()  # to be sent
        # Something may have been delivered here that the store does not have: it was lost in a crash, or refused.
        self._has_forgotten = not was_clean
        self._waiting: deque[tuple[LinkSequences, int, MessageBatch]] = deque()  # new ones, of this connection
        self._storing: dict[int, tuple[LinkSequences, int, int]] = {}  # token -> what the store has not answered
        self._unstored: dict[int, LinkSequences] = {}  # by lineage, of which nothing was stored or answered yet
        self._tries_count = 0  # in a row, without room
        self._timer: TimerHandle | None = None

    def connected(
        self, cell: ActorCell, wire: LinkWire, flow_id: int, frame_bytes_max: int, ask_flush: Callable[[], None]
    ) -> None:
        """Begin on a new connection. `ask_flush` has the link call `flush` at the end of the turn."""
        self._cell = cell
        self._ask_flush = ask_flush
        self._wire = wire
        self._flow_id = flow_id
        self._ranges_max = min(RANGES_MAX, (frame_bytes_max - _ANSWER_BYTES) // _RANGE_BYTES)
        self._answers = RangeSet()

    def disconnected(self) -> None:
        """The connection is gone. What waits is sent again; the store decides about what it was given."""
        self._wire = None
        self._ask_flush = _nothing
        self._forget_waiting()
        self._end_timer()
        self._found_room()

    def _forget_waiting(self) -> None:
        self._waiting.clear()
        self._unstored.clear()
        self.waiting_count = 0

    def arrived(self, frame: LinkStore, as_sent: MessageBatch) -> None:
        """Take the messages of a frame. Raises PeerViolation."""
        cell = self._cell
        assert cell is not None, "there is a connection"
        wall_ms = cell.runtime.dispatcher.both_ms()[1]
        batch = arriving(as_sent, frame.sent_ms, wall_ms)
        if frame.is_repeated and self._has_forgotten:
            batch.possible_duplicate = True
        first, end = frame.first, frame.first + batch.count
        self.received_count += batch.count
        sequences = self._sequences_of(frame.lineage)
        sequences.raise_floor(frame.floor)
        new, known = sequences.arrive(first, end)
        self.waiting_count += sum([stop - start for start, stop in new])
        if self.waiting_count > WAITING_MAX:
            text = f"message VPN {self._vpn}: {self.waiting_count} messages without an answer; at most {WAITING_MAX}"
            raise PeerViolation(codes.LIMIT_EXCEEDED, text)
        for start, stop in known:
            self.repeated_count += stop - start
            self._answers.add(start, stop)
        for start, stop in new:
            part = batch if stop - start == batch.count else batch.select(list(range(start - first, stop - first)))
            self._waiting.append((sequences, start, part))
        self._go_on()
        self._ask_flush()

    def _sequences_of(self, lineage: int) -> LinkSequences:
        found = self._kept.sequences.get(lineage) or self._unstored.get(lineage)
        if found is None:
            found = self._unstored[lineage] = self._kept.new_sequences(lineage)
        return found

    def _go_on(self) -> None:
        cell = self._cell
        assert cell is not None, "there is a connection"
        if self._storing:
            return  # `post` goes on
        while self._waiting and self._timer is None:
            sequences, first, batch = self._waiting[0]
            end = first + batch.count
            new, known = sequences.arrive(first, end)
            if new != [(first, end)]:  # it was in two frames of this connection
                self._waiting.popleft()
                self.waiting_count -= sum([stop - start for start, stop in known])
                for start, stop in reversed(new):
                    part = batch.select(list(range(start - first, stop - first)))
                    self._waiting.appendleft((sequences, start, part))
                for start, stop in known:
                    self._answers.add(start, stop)
                continue
            if not self._store(cell, sequences, first, end, batch):
                self._timer = cell.after(TRY_AGAIN_MS, self._try_again)
                self._lacks_room()
                return
            self._waiting.popleft()
            self.waiting_count -= batch.count
        if not self._waiting:
            self._found_room()

    def _lacks_room(self) -> None:
        """Report once that the neighbor's messages have waited for a while."""
        self._tries_count += 1
        if self._tries_count == TRIES_BEFORE_EVENT:
            self._report(SYSTEM_LINK_WAITS, f"{self.waiting_count} guaranteed messages wait here for room")

    def _found_room(self) -> None:
        if self._tries_count >= TRIES_BEFORE_EVENT:
            text = "guaranteed messages wait here no longer" if self._wire is not None else "the connection has ended"
            self._report(SYSTEM_LINK_WAITS_CLEAR, text)
        self._tries_count = 0

    def _report(self, kind: EventKind, text: str) -> None:
        assert self._cell is not None, "there was a connection"
        self._cell.runtime.events.emit(kind, f"link to {self._kept.neighbor}, message VPN {self._vpn}: {text}")

    def _store(self, cell: ActorCell, sequences: LinkSequences, first: int, end: int, batch: MessageBatch) -> bool:
        """Publish new messages; return False when there is no room."""
        token = cell.runtime.next_urn()
        found = self._publisher.store(
            batch, neighbor=self._kept.neighbor, row=lambda: sequences.begin(first, end), address=self, token=token
        )
        if found == NO_ROOM:
            return False
        if self._unstored:
            self._kept.sequences[sequences.lineage] = sequences
            self._unstored.pop(sequences.lineage, None)
        if found == STORING:
            self._storing[token] = (sequences, first, end)
        else:
            sequences.passed(first, end)
            self._answers.add(first, end)
        return True

    def _end_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _try_again(self) -> None:
        self._end_timer()
        if self._wire is None:
            return
        self._go_on()
        self._ask_flush()

    def post(self, message: object) -> None:
        """Take the store's answer."""
        assert isinstance(message, (Confirmed, PublishFailed)), "the store confirms or refuses"
        storing = self._storing.pop(message.token)
        sequences, first, end = storing
        is_stored = isinstance(message, Confirmed)
        sequences.decided(first, end, is_stored=is_stored)
        if is_stored:
            self._answers.add(first, end)
            self._ask_flush()
            if self._waiting and not self._storing and self._cell is not None:
                self._cell.after(0, self._try_again)  # in a turn of the link's, not of the store's
            return
        assert isinstance(message, PublishFailed), "the other answer"
        self._has_forgotten = True
        self._forget_waiting()  # they come again behind it, on the next connection
        log.warning("messages of neighbor %s could not be stored: %s", self._kept.neighbor, message.reason)
        wire, reason = self._wire, message.reason
        if wire is not None and self._cell is not None:
            # In a turn of the link's, not of the store's. The wire does nothing once it has ended.
            self._cell.after(0, lambda: wire.end(codes.INTERNAL, f"the messages could not be stored: {reason}"))

    def flush(self) -> None:
        """Send the answers there are."""
        wire = self._wire
        if wire is None or not self._answers:
            return
        ranges = self._answers.ranges()
        self._answers = RangeSet()
        for at in range(0, len(ranges), self._ranges_max):
            wire.control(LinkStored(self._flow_id, ranges[at : at + self._ranges_max]).encode())


def _nothing() -> None:
    """Do nothing: there is no connection."""
