"""What both brokers of a link want of each other, in one message VPN: told, stored, and put in force.

It exists for as long as the link, and keeps between connections what the neighbor wants. What concerns guaranteed
messages is stored before it is in force, and acknowledged when it is.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final, final

from sluicegate.actors.messages.data import Confirmed, PublishFailed, SessionRows
from sluicegate.actors.messages.router import ChangeNeighborInterest
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.network.digests import BUCKETS
from sluicegate.messaging.network.exchange import InterestReceiver, InterestSender
from sluicegate.messaging.network.interest import Change
from sluicegate.messaging.network.link import InterestWaiter, LinkOutput
from sluicegate.messaging.network.retained.exchange import RetainedMark, RetainedSender
from sluicegate.messaging.observability.events import SYSTEM_LINK_LEFT_OUT
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.codes import PeerViolation
from sluicegate.protocols.flow.codec.frames.link import LinkAck, LinkDigests, LinkInterests
from sluicegate.protocols.flow.links import LinkWire
from sluicegate.protocols.network.exchange.interest_frames import notice_body, notice_in
from sluicegate.protocols.network.exchange.interest_waits import InterestWaits
from sluicegate.protocols.network.guaranteed.kept import KeptLink

log = logging.getLogger("sluicegate.network")

NOTICE_HEAD_BYTES: Final = 256  # of a notice's frame, beside its interests
NOTICES_PER_TURN: Final = 8  # then others have their turn; each has up to 1,000 interests
STORE_AGAIN_MS: Final = 1_000  # after the store has refused what a neighbor wants
_NO_DIGESTS: Final = [0] * BUCKETS


@final
class InterestLink:
    """The exchange of interests of one link, in one message VPN."""

    def __init__(
        self,
        cell: ActorCell,
        output: LinkOutput,
        kept: KeptLink,
        *,
        vpn: str,
        router: ActorCell,
        spool: Address,
        subscribe_wait_ms: int,
        events: Events,
        retained: RetainedSender,
        ask_flush: Callable[[], None],
    ) -> None:
        """`output` is the link, as the router knows it; `ask_flush` has it call `flush` at the end of the turn.

        What was retained before an interest is in force crosses before its acknowledgement: the live messages did not.
        """
        self.sender: Final = InterestSender()
        self.receiver = InterestReceiver()
        self.waits: Final = InterestWaits(cell, subscribe_wait_ms)
        self._cell = cell
        self._output = output
        self._kept = kept
        self._vpn = vpn
        self._router = router
        self._spool = spool
        self._events = events
        self._ask_flush = ask_flush
        self._wire: LinkWire | None = None
        self._flow_id = 0
        self._frame_bytes_max = 0  # that the neighbor takes
        # Changes for the router, with the number of each and its connection; it has the first. One at a time: a
        # neighbor that wants 100,000 topics would else have its turn for a second.
        # What concerns guaranteed messages is stored before that.
        self._changes: deque[tuple[Change, int, LinkWire | None]] = deque()
        self._storing: dict[int, Change] = {}  # token -> a change whose rows are being written
        self._storing_token = 0  # of the first change; 0: none of its rows are being written
        self._retained = retained
        self._in_force_number = 0
        self._unacked: deque[tuple[int, RetainedMark]] = deque()  # numbers in force, and what goes before
        self._left_out_count = 0  # as it was reported, on the present connection
        self._begin_from_the_store()

    def stop(self) -> None:
        """End for good."""
        self._changes.clear()

    def _begin_from_the_store(self) -> None:
        """Begin with what the store has of what the neighbor wants."""
        self.receiver = InterestReceiver()
        for interest in self._kept.interests:
            self.receiver.interests.add(interest)

    def _forget(self) -> None:
        """Begin with the next connection from what the store has: that stays in force meanwhile."""
        known = [*self.receiver.interests.all(), *[each for change, _, _ in self._changes for each in change.removed]]
        self._begin_from_the_store()
        self._changes.clear()
        self._storing_token = 0
        gone = [each for each in known if each not in self._kept.interests]
        self._router.ask(ChangeNeighborInterest(self._output, Change(list(self._kept.interests), gone)))

    # --- the connection ---

    def connected(self, wire: LinkWire, flow_id: int, frame_bytes_max: int) -> None:
        """Begin on a new connection."""
        self._wire = wire
        self._flow_id = flow_id
        self._frame_bytes_max = frame_bytes_max
        self._in_force_number = 0
        self._unacked.clear()
        digests = self.receiver.connected()
        known = self.receiver.interests.count > 0
        wire.control(LinkDigests(flow_id, tuple(digests) if known else ()).encode())

    def disconnected(self) -> None:
        """The connection is gone."""
        self._wire = None
        self.sender.disconnected()
        self.waits.end()

    def flush(self, wire: LinkWire) -> bool:
        """Send notices; return whether there is more to send in another turn."""
        self._report_left_out()
        left = NOTICES_PER_TURN
        for notice in self.sender.notices():
            wire.control(LinkInterests(self._flow_id, notice_body(notice)).encode())
            left -= 1
            if not left:
                return True
        if not self.sender.has_unsent:
            self.waits.sent(self.sender.sent_number)
        return False

    def acknowledge(self, wire: LinkWire) -> None:
        """Acknowledge what is in force, if what was retained before has gone out."""
        number = 0
        while self._unacked and self._retained.has_passed(self._unacked[0][1]):
            number, _ = self._unacked.popleft()
        self._retained.is_waited_for = bool(self._unacked)
        if number:
            wire.control(LinkAck(self._flow_id, number).encode())

    def _report_left_out(self) -> None:
        """Report interests that no frame of the neighbor takes, when there are more than before."""
        count = self.sender.left_out_count
        if count > self._left_out_count:
            text = f"{count} topic filters are too long for frames of {self._frame_bytes_max} bytes, the most that it"
            text += " takes (flow.max_frame_size there): their messages do not come from there"
            self._events.emit(SYSTEM_LINK_LEFT_OUT, f"link to {self._output.neighbor}, message VPN {self._vpn}: {text}")
        self._left_out_count = count

    # --- what this broker wants ---

    def change(self, change: Change) -> None:
        """Tell the neighbor of a change, at the end of this turn."""
        self.sender.change(change)
        self._ask_flush()

    def wait_until_known(self, waiter: InterestWaiter) -> bool:
        """Tell a waiter when the neighbor knows all of the interest; see `LinkOutput`. There is a connection."""
        if self.sender.is_known or not self.waits.add(waiter):
            return False
        if not self.sender.has_unsent:  # it waits for the acknowledgement
            self.waits.sent(self.sender.sent_number)
        return True

    def told_digests(self, frame: LinkDigests) -> None:
        """Begin to tell: the neighbor has said what it knows. Raises ValueError."""
        size = self._frame_bytes_max
        self.sender.connected(list(frame.digests) or _NO_DIGESTS, size // 4, size - NOTICE_HEAD_BYTES)
        self._left_out_count = 0
        self._ask_flush()

    def acknowledged(self, frame: LinkAck) -> None:
        """Note what is in force at the neighbor. Raises ValueError."""
        self.sender.acknowledged(frame.number)
        self.waits.acknowledged(frame.number)
        if self.sender.has_unsent:
            self._ask_flush()

    # --- what the neighbor wants ---

    def told(self, frame: LinkInterests) -> None:
        """Take what the neighbor wants. Raises ValueError and PeerViolation."""
        notice = notice_in(frame.body)
        try:
            change = self.receiver.take(notice)
        except ValueError as error:
            self._forget()
            raise PeerViolation(codes.LINK_OUT_OF_STEP, f"message VPN {self._vpn}: {error}") from error
        self._changes.append((change, notice.number, self._wire))
        if len(self._changes) == 1:
            self._make_changes()

    def are_in_force(self) -> bool:
        """Return whether everything that the neighbor has told is in force, and it has told everything by now."""
        return self._wire is not None and self.receiver.is_complete and not self._changes

    def _make_changes(self) -> None:
        """Have the store and the router make the first of the changes, and then the others."""
        changes = self._changes
        while changes and not (changes[0][0].added or changes[0][0].removed):
            self._in_force(changes.popleft())
        if not changes:
            self._output.has_told = self._output.has_told or self.receiver.is_complete
            return
        rows = self._kept.interest_rows(changes[0][0])
        if rows:
            self._storing_token = self._cell.runtime.next_urn()
            self._storing[self._storing_token] = changes[0][0]
            self._spool.post(SessionRows(rows, self._cell.inbox, self._storing_token))
        else:
            self._ask_router()

    def stored(self, message: Confirmed | PublishFailed) -> None:
        """Go on: the store has what the neighbor wants, or refuses it, which is tried again."""
        change = self._storing.pop(message.token, None)
        if change is None:
            return  # another message VPN's
        is_first = message.token == self._storing_token
        if isinstance(message, Confirmed):
            self._kept.interests_stored(change)
            if is_first:
                self._storing_token = 0
                self._ask_router()
            else:
                self._store_again(change)
            return
        if is_first:
            self._storing_token = 0
            log.warning("what neighbor %s wants could not be stored: %s", self._output.neighbor, message.reason)
            self._cell.after(STORE_AGAIN_MS, lambda: self._try_again(change))

    def _try_again(self, change: Change) -> None:
        """Make the first change, if it is still this one: the neighbor waits for its acknowledgement."""
        if self._changes and self._changes[0][0] is change and self._storing_token == 0:
            self._make_changes()

    def _store_again(self, change: Change) -> None:
        """Undo a change that was given up while its rows were being written, as far as it has ended something."""
        again = Change([each for each in change.removed if each in self.receiver.interests], [])
        rows = self._kept.interest_rows(again)
        if rows:
            self._spool.post(SessionRows(rows, None, 0, until_done=True))
            self._kept.interests_stored(again)

    def _ask_router(self) -> None:
        """Have the router make the first of the changes."""
        changes = self._changes
        first = changes[0]

        def done(answer: LoopFuture[Any]) -> None:
            # Compiled, a tuple is no object: taken out of the line twice it is two, and the change in it one.
            if changes and changes[0][0] is first[0]:  # else they were forgotten
                error = answer.error()
                if error is not None and not self._router.is_stopped():  # else the message VPN was deleted
                    self._router_failed(error)
                    return
                changes.popleft()
                if error is None:
                    self._in_force(first)
                self._make_changes()

        self._router.ask(ChangeNeighborInterest(self._output, first[0])).then(done)

    def _router_failed(self, error: BaseException) -> None:
        """Begin the exchange anew: it is not known how much of the change is in force."""
        log.error("what neighbor %s wants could not be put in force: %r", self._output.neighbor, error)
        self._forget()
        if self._wire is not None:
            self._wire.end(codes.INTERNAL, "what you want could not be put in force")

    def _in_force(self, made: tuple[Change, int, LinkWire | None]) -> None:
        _, number, wire = made
        if number > self._in_force_number and wire is self._wire:
            self._in_force_number = number
            self._unacked.append((number, self._retained.mark()))
            self._ask_flush()
