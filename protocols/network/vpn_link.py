"""One message VPN of one link: the exchange of interests, and messages both ways.

It exists for as long as the link is configured. Between connections it keeps what the neighbor wants, so that a break
costs little. Its router then sends no direct messages there, and stores guaranteed ones in the link's queue
(`link_queue`, the way out; `arrivals`, the way in).
"""

import logging
from collections import deque
from typing import Any, Final, final

from sluicegate.actors.messages.data import Confirmed, Deliveries, PublishFailed, SessionRows
from sluicegate.actors.messages.directory import FindElsewhere, QueueHandle
from sluicegate.actors.messages.queues import FlowGone
from sluicegate.actors.messages.router import ChangeNeighborInterest, NeighborGone, NeighborPresenceChanged
from sluicegate.actors.network.link_batches import PIECE_BYTES, link_batch, link_body
from sluicegate.actors.publishing.link_publisher import LinkPublisher
from sluicegate.actors.queues.elsewhere import queue_elsewhere
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.inbox import Flushed, Scheduled
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.network.digests import BUCKETS
from sluicegate.messaging.network.exchange import InterestReceiver, InterestSender
from sluicegate.messaging.network.interest import Change, text_of
from sluicegate.messaging.network.link import SUBSCRIBERS, GroupKey, InterestWaiter, LinkOutput, LinkTargets
from sluicegate.messaging.network.times import arriving, leaving
from sluicegate.messaging.observability.events import SYSTEM_LINK_LEFT_OUT
from sluicegate.messaging.queues.credit import CreditPool
from sluicegate.messaging.routing.local_interest import ExportRules
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.messaging.topics.syntax import Syntax, TopicError, parse_filter
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.codes import MALFORMED, PeerViolation
from sluicegate.protocols.flow.codec.frames import link as frames
from sluicegate.protocols.flow.codec.frames.link import (
    TAKES_PACKETS,
    TELLS_NEIGHBORS,
    Link,
    LinkAck,
    LinkDigests,
    LinkGroup,
    LinkInterests,
    LinkMessages,
    LinkNeighbors,
    LinkRetained,
    LinkStore,
    LinkStored,
    VpnFrame,
)
from sluicegate.protocols.flow.codec.frames.link_flow import SERVES_CONSUMERS, LinkDeliver, LinkFlow
from sluicegate.protocols.flow.codec.limits import LINK_GROUPS_MAX
from sluicegate.protocols.flow.links import LinkWire
from sluicegate.protocols.network.arrivals import LinkArrivals
from sluicegate.protocols.network.exchange.interest_frames import notice_body, notice_in
from sluicegate.protocols.network.exchange.interest_waits import InterestWaits
from sluicegate.protocols.network.exchange.mesh import VpnMesh
from sluicegate.protocols.network.exchange.packets import PacketsReader, has_packets, packets_of
from sluicegate.protocols.network.kept import KeptLink
from sluicegate.protocols.network.link_queue import FRAME_HEAD_BYTES, LinkQueueSender
from sluicegate.protocols.network.queues.home import HomeFlows
from sluicegate.protocols.network.queues.notes import OF_CONSUMERS, note_in
from sluicegate.protocols.network.queues.remote import RemoteQueues
from sluicegate.protocols.network.retained.link import RetainedLink

log = logging.getLogger("sluicegate.network")

NOTICE_HEAD_BYTES: Final = 256  # of a notice's frame, beside its interests
NOTICES_PER_TURN: Final = 8  # then others have their turn; each has up to 1,000 interests
PACKETS_BYTES_MAX: Final = 1024 * 1024  # a publisher's packets go in one frame; more are split into messages
STORE_AGAIN_MS: Final = 1_000  # after the store has refused what a neighbor wants
_NO_DIGESTS: Final = [0] * BUCKETS


@final
class AbsentNeighbor(LinkOutput):
    """A neighbor before its link begins: guaranteed messages are stored for it, and nothing is sent."""

    def __init__(self, neighbor: str) -> None:
        super().__init__(neighbor)
        self.is_up = False


@final
class LinkedVpn:
    """A message VPN of this broker, as its links use it."""

    def __init__(
        self,
        *,
        name: str,
        space: TopicSpace,
        router: ActorCell,
        publisher: LinkPublisher,
        spool: Address,
        kept: dict[str, KeptLink],
        was_clean: bool,
        queues: ActorCell,
        selectors: Selectors,
        credit: CreditPool[Address],
    ) -> None:
        """`kept` has neighbors by their names, those that were made so far. `was_clean`: the node was stopped in order
        before."""
        self.name = name
        self.space = space
        self.router = router
        self.publisher = publisher
        self.spool = spool
        self.kept = kept
        self.queues = queues
        self.selectors = selectors
        self.credit = credit
        self.links: dict[str, RemoteQueues] = {}  # by neighbor, of links that there are
        self._was_clean = was_clean
        self._linked: dict[str, None] = {}  # neighbors whose link runs, connected or not
        self._arrivals: dict[str, LinkArrivals] = {}
        self._absent: dict[str, AbsentNeighbor] = {}
        queues.inbox.post(FindElsewhere(self.find))

    def expect(self, neighbor: str) -> None:
        """Store guaranteed messages for a neighbor that is known, and whose link does not run.

        At the start something may be published before links begin: delayed wills, and commits that were decided. At the
        stop clients publish on after links have ended. And links wait for their message VPN to be up at both ends.
        """
        kept = self.kept[neighbor]
        if kept.queue is None or neighbor in self._absent or neighbor in self._linked:
            return
        output = self._absent[neighbor] = AbsentNeighbor(neighbor)
        self.space.change_neighbor(output, Change(list(kept.interests), []))
        self.space.keep_for(output, kept.queue.target)

    def link_begins(self, neighbor: str) -> None:
        """Leave it to a link to store messages for its neighbor."""
        self._linked[neighbor] = None
        self.expect_no_more(neighbor)

    def link_ends(self, neighbor: str) -> None:
        """Note that a link does so no more."""
        self._linked.pop(neighbor, None)

    def expect_no_more(self, neighbor: str) -> None:
        """End that: its link begins, or it has none any more."""
        output = self._absent.pop(neighbor, None)
        if output is not None:
            self.space.keep_for(output, None)
            self.space.forget_neighbor(output)

    def arrivals_of(self, neighbor: str) -> LinkArrivals:
        """Return the way in of a neighbor's guaranteed messages."""
        found = self._arrivals.get(neighbor)
        if found is None:
            found = self._arrivals[neighbor] = LinkArrivals(
                self.kept[neighbor], self.publisher, vpn=self.name, was_clean=self._was_clean
            )
        return found

    def find(self, name: str) -> QueueHandle | None:
        """Return the queue of a neighbor that a name means here, for consumers; None: there is none."""
        home = self.space.queue_home(name)
        remote = None if home is None else self.links.get(home.output.neighbor)
        if home is None or remote is None:
            return None
        cell, queue = remote.queue(name)
        return queue_elsewhere(home, cell, queue.clients, remote.incarnation)

    def forget(self, neighbor: str) -> None:
        """Forget what was kept of a neighbor that has no link."""
        self.kept.pop(neighbor, None)
        self._arrivals.pop(neighbor, None)


@final
class VpnLink(LinkOutput, Flushed):
    """One message VPN of one link. Its queue is made before it is."""

    def __init__(
        self,
        cell: ActorCell,
        neighbor: str,
        vpn: LinkedVpn,
        mesh: VpnMesh,
        *,
        there: str,
        rules: ExportRules,
        subscribe_wait_ms: int,
        events: Events,
    ) -> None:
        super().__init__(neighbor)
        self.vpn: Final = vpn
        self.mesh: Final = mesh
        self.there: Final = there  # name of the message VPN at the neighbor
        self.sender: Final = InterestSender()
        self.waits: Final = InterestWaits(cell, subscribe_wait_ms)
        self.receiver = InterestReceiver()
        self.received_count = 0  # direct messages
        self.away_count = 0  # direct messages for the neighbor while there was no connection
        self.too_large_count = 0  # direct messages that no frame of the neighbor takes
        self.expired_count = 0  # direct messages
        self.unwritable_count = 0  # direct messages that could not be encoded: a fault of ours
        self._cell = cell
        self._wire: LinkWire | None = None
        self._flow_id = 0
        self._frame_bytes_max = 0  # that the neighbor takes
        self._takes_packets = False  # the neighbor reads direct messages as MQTT packets
        self._packets: Final = PacketsReader()
        self._is_asked = False
        # Changes for the router, with the number of each and its connection; it has the first. One at a time: a
        # neighbor that wants 100,000 topics would else have its turn for a second.
        # What concerns guaranteed messages is stored before that.
        self._changes: deque[tuple[Change, int, LinkWire | None]] = deque()
        self._storing: dict[int, Change] = {}  # token -> a change whose rows are being written
        self._storing_token = 0  # of the first change; 0: none of its rows are being written
        self._acked_number = 0
        self._in_force_number = 0
        self._left_out_count = 0  # as it was reported, on the present connection
        self._events: Final = events
        self.is_up = False
        kept = self.kept = vpn.kept[neighbor]
        queue = kept.queue
        assert queue is not None, "the queue is made before the link"
        self.queue_sender: Final = LinkQueueSender(cell, neighbor, queue, kept.lineages)
        self.arrivals: Final = vpn.arrivals_of(neighbor)
        self.retained: Final = RetainedLink(
            cell, neighbor, vpn.name, space=vpn.space, spool=vpn.spool, rules=rules, events=events
        )
        self.home_flows: Final = HomeFlows(
            cell, neighbor, queues=vpn.queues, selectors=vpn.selectors, credit=vpn.credit
        )
        self.remote_queues: Final = RemoteQueues(cell, neighbor)
        vpn.links[neighbor] = self.remote_queues
        self._begin_from_the_store()
        vpn.link_begins(neighbor)
        vpn.space.change_neighbor(self, Change(list(kept.interests), []))
        vpn.space.keep_for(self, queue.target)
        self.sender.change(vpn.space.exported().export_to(self, self._interest_changed, rules))

    def stop(self) -> None:
        """End for good."""
        self.disconnected()
        self.remote_queues.stop()
        self.vpn.links.pop(self.neighbor, None)
        self._changes.clear()
        self.retained.stop()
        self.vpn.space.keep_for(self, None)
        self.vpn.link_ends(self.neighbor)
        self.vpn.router.ask(NeighborGone(self))
        self.vpn.space.exported().end_export(self)

    def _begin_from_the_store(self) -> None:
        """Begin with what the store has of what the neighbor wants."""
        self.receiver = InterestReceiver()
        for interest in self.kept.interests:
            self.receiver.interests.add(interest)

    def _forget(self) -> None:
        """Begin with the next connection from what the store has: that stays in force meanwhile."""
        known = [*self.receiver.interests.all(), *[each for change, _, _ in self._changes for each in change.removed]]
        self._begin_from_the_store()
        self._changes.clear()
        self._storing_token = 0
        gone = [each for each in known if each not in self.kept.interests]
        self.vpn.router.ask(ChangeNeighborInterest(self, Change(list(self.kept.interests), gone)))

    # --- the connection ---

    def connected(self, wire: LinkWire, flow_id: int, frame_bytes_max: int, greeting: Link) -> None:
        """Begin on a new connection. `greeting` is the neighbor's."""
        self._wire = wire
        self._flow_id = flow_id
        self._frame_bytes_max = frame_bytes_max
        self._takes_packets = TAKES_PACKETS in greeting.features
        self._acked_number = self._in_force_number = 0
        digests = self.receiver.connected()
        known = self.receiver.interests.count > 0
        wire.control(LinkDigests(flow_id, tuple(digests) if known else ()).encode())
        self.arrivals.connected(self._cell, wire, flow_id, frame_bytes_max, self._ask_flush)
        self.queue_sender.connected(wire, flow_id, frame_bytes_max)
        if frames.RETAINED in greeting.features:
            self.retained.connected(wire, flow_id, frame_bytes_max, self._ask_flush)
        if SERVES_CONSUMERS in greeting.features:
            self.home_flows.connected(wire, flow_id, frame_bytes_max)
            self.remote_queues.connected(wire, flow_id, greeting.incarnation)
        else:
            self.remote_queues.connected_unserved()
        self._set_up(True)
        self.mesh.joined(self.neighbor, self._tell_neighbors if TELLS_NEIGHBORS in greeting.features else None)

    def disconnected(self) -> None:
        """The connection is gone."""
        if self._wire is not None:
            self._wire = None
            self.sender.disconnected()
            self.waits.end()
            self.arrivals.disconnected()
            self.queue_sender.disconnected()
            self.retained.disconnected()
            self.home_flows.disconnected()
            self.remote_queues.disconnected()
            self._set_up(False)
            self.mesh.left(self.neighbor)

    def _tell_neighbors(self, names: list[str]) -> None:
        """Tell the neighbor which brokers this one is linked to."""
        if self._wire is not None:
            self._wire.control(LinkNeighbors(self._flow_id, tuple(names)).encode())

    def _set_up(self, is_up: bool) -> None:
        self.is_up = is_up
        self.vpn.router.inbox.post(NeighborPresenceChanged(self))

    def received(self, frame: VpnFrame) -> None:
        """Handle a frame of the neighbor. Raises PeerViolation."""
        if isinstance(frame, LinkMessages):
            self._arrived(frame)
            return
        if isinstance(frame, LinkStore):
            self.arrivals.arrived(frame, self._guaranteed(frame.batch))
            return
        if isinstance(frame, LinkStored):
            self.queue_sender.answered(frame.ranges)
            return
        if isinstance(frame, LinkNeighbors):
            self.mesh.told(self.neighbor, frame.names)
            return
        try:
            if isinstance(frame, LinkDeliver):
                self.remote_queues.delivered(frame)
            elif isinstance(frame, LinkFlow):
                note = note_in(frame.batch)
                if note.kind in OF_CONSUMERS:
                    self.home_flows.received(note)
                else:
                    self.remote_queues.received(note)
            elif isinstance(frame, LinkInterests):
                self._interests(frame)
            elif isinstance(frame, LinkAck):
                self.sender.acknowledged(frame.number)
                self.waits.acknowledged(frame.number)
                if self.sender.has_unsent:
                    self._ask_flush()
            elif isinstance(frame, LinkRetained):
                self.retained.received(frame.body)
            else:
                size = self._frame_bytes_max
                self.sender.connected(list(frame.digests) or _NO_DIGESTS, size // 4, size - NOTICE_HEAD_BYTES)
                self._left_out_count = 0
                self._ask_flush()
        except ValueError as error:
            raise self._malformed(error) from error

    def _guaranteed(self, body: bytes) -> MessageBatch:
        try:
            batch = link_batch(body)
        except ValueError as error:
            raise self._malformed(error) from error
        if batch.qos == AT_MOST_ONCE:
            raise self._malformed(ValueError("LINK_STORE with direct messages"))
        return batch

    def _malformed(self, error: ValueError) -> PeerViolation:
        return PeerViolation(MALFORMED, f"message VPN {self.vpn.name}: {error}")

    def take(self, message: object) -> None:
        """Take a message to the link's actor: from the link's queue, or of the store. Others' are ignored."""
        if self.home_flows.take(message):
            return
        if isinstance(message, Deliveries):
            self.queue_sender.deliver(message)
        elif isinstance(message, FlowGone):
            self.queue_sender.gone(message)
        elif isinstance(message, (Confirmed, PublishFailed)):
            self._interest_stored(message)

    # --- interests ---

    def _interest_changed(self, change: Change) -> None:
        """Tell the neighbor of a change, at the end of this turn."""
        self.sender.change(change)
        self._ask_flush()

    def wait_until_known(self, waiter: InterestWaiter) -> bool:
        """Tell a waiter when the neighbor knows all of the interest; see `LinkOutput`."""
        if not self.is_up or self.sender.is_known or not self.waits.add(waiter):
            return False
        if not self.sender.has_unsent:  # it waits for the acknowledgement
            self.waits.sent(self.sender.sent_number)
        return True

    def resumed(self) -> None:
        """The socket takes more."""
        self._ask_flush()

    def _ask_flush(self) -> None:
        if not self._is_asked and self._wire is not None:
            self._is_asked = True
            self._cell.runtime.dispatcher.at_turn_end(self)

    def flush(self) -> None:
        """Send answers, acknowledgements and notices."""
        self._is_asked = False
        wire = self._wire
        if wire is None or wire.is_full:
            return  # `resumed` goes on: nothing that the neighbor can make us say piles up meanwhile
        self.arrivals.flush()
        if self._in_force_number > self._acked_number:
            self._acked_number = self._in_force_number
            wire.control(LinkAck(self._flow_id, self._in_force_number).encode())
        self._report_left_out()
        left = NOTICES_PER_TURN
        for notice in self.sender.notices():
            wire.control(LinkInterests(self._flow_id, notice_body(notice)).encode())
            left -= 1
            if not left:
                self._ask_flush()
                return
        if not self.sender.has_unsent:
            self.waits.sent(self.sender.sent_number)
        if self.retained.flush():
            self._ask_flush()

    def _report_left_out(self) -> None:
        """Report interests that no frame of the neighbor takes, when there are more than before."""
        count = self.sender.left_out_count
        if count > self._left_out_count:
            text = f"{count} topic filters are too long for frames of {self._frame_bytes_max} bytes, the most that it"
            text += " takes (flow.max_frame_size there): their messages do not come from there"
            self._events.emit(SYSTEM_LINK_LEFT_OUT, f"link to {self.neighbor}, message VPN {self.vpn.name}: {text}")
        self._left_out_count = count

    def owner(self) -> Scheduled | None:
        """Return the link's actor."""
        return self._cell

    def _interests(self, frame: LinkInterests) -> None:
        notice = notice_in(frame.body)
        try:
            change = self.receiver.take(notice)
        except ValueError as error:
            self._forget()
            raise PeerViolation(codes.LINK_OUT_OF_STEP, f"message VPN {self.vpn.name}: {error}") from error
        self._changes.append((change, notice.number, self._wire))
        if len(self._changes) == 1:
            self._make_changes()

    def _make_changes(self) -> None:
        """Have the store and the router make the first of the changes, and then the others."""
        changes = self._changes
        while changes and not (changes[0][0].added or changes[0][0].removed):
            self._in_force(changes.popleft())
        if not changes:
            return
        rows = self.kept.interest_rows(changes[0][0])
        if rows:
            self._storing_token = self._cell.runtime.next_urn()
            self._storing[self._storing_token] = changes[0][0]
            self.vpn.spool.post(SessionRows(rows, self._cell.inbox, self._storing_token))
        else:
            self._ask_router()

    def _interest_stored(self, message: Confirmed | PublishFailed) -> None:
        """Go on: the store has what the neighbor wants, or refuses it, which is tried again."""
        change = self._storing.pop(message.token, None)
        if change is None:
            return  # another message VPN's
        is_first = message.token == self._storing_token
        if isinstance(message, Confirmed):
            self.kept.interests_stored(change)
            if is_first:
                self._storing_token = 0
                self._ask_router()
            else:
                self._store_again(change)
            return
        if is_first:
            self._storing_token = 0
            log.warning("what neighbor %s wants could not be stored: %s", self.neighbor, message.reason)
            self._cell.after(STORE_AGAIN_MS, lambda: self._try_again(change))

    def _try_again(self, change: Change) -> None:
        """Make the first change, if it is still this one: the neighbor waits for its acknowledgement."""
        if self._changes and self._changes[0][0] is change and self._storing_token == 0:
            self._make_changes()

    def _store_again(self, change: Change) -> None:
        """Undo a change that was given up while its rows were being written, as far as it has ended something."""
        again = Change([each for each in change.removed if each in self.receiver.interests], [])
        rows = self.kept.interest_rows(again)
        if rows:
            self.vpn.spool.post(SessionRows(rows, None, 0, until_done=True))
            self.kept.interests_stored(again)

    def _ask_router(self) -> None:
        """Have the router make the first of the changes."""
        changes = self._changes
        first = changes[0]

        def done(answer: LoopFuture[Any]) -> None:
            # Compiled, a tuple is no object: taken out of the line twice it is two, and the change in it one.
            if changes and changes[0][0] is first[0]:  # else they were forgotten
                changes.popleft()
                error = answer.error()
                if error is None:
                    self._in_force(first)
                elif not self.vpn.router.is_stopped():  # else the message VPN was deleted
                    self._router_failed(error)
                self._make_changes()

        self.vpn.router.ask(ChangeNeighborInterest(self, first[0])).then(done)

    def _router_failed(self, error: BaseException) -> None:
        """Begin the exchange anew: it is not known how much of the change is in force."""
        log.error("what neighbor %s wants could not be put in force: %r", self.neighbor, error)
        self._forget()
        if self._wire is not None:
            self._wire.end(codes.INTERNAL, "what you want could not be put in force")

    def _in_force(self, made: tuple[Change, int, LinkWire | None]) -> None:
        _, number, wire = made
        if number > self._in_force_number and wire is self._wire:
            self._in_force_number = number
            self._ask_flush()

    # --- direct messages ---

    def send(self, batch: MessageBatch, targets: LinkTargets) -> None:
        """Send direct messages; see `LinkOutput`."""
        wire = self._wire
        if wire is None:
            self.away_count += batch.count
            return
        alive = leaving(batch, self._cell.runtime.dispatcher.both_ms()[1])
        if alive is not batch:
            self.expired_count += batch.count - (0 if alive is None else alive.count)
            if alive is None:
                return
        groups: list[LinkGroup] = []
        if targets.groups:
            groups = [_link_group(name, text_of(topic_filter)) for name, topic_filter in targets.groups]
        self._send(wire, alive, _targets_of(targets), groups)

    def _send(self, wire: LinkWire, batch: MessageBatch, targets: int, groups: list[LinkGroup]) -> None:
        count = batch.count
        if self._takes_packets:
            packets = packets_of(batch)
            if packets is not None:
                head, rest = packets
                if len(head) + len(rest) + FRAME_HEAD_BYTES <= min(self._frame_bytes_max, PACKETS_BYTES_MAX):
                    self._write(wire, head, count, targets, groups, rest)
                    return
        if count > 1 and batch.payload_bytes > PIECE_BYTES:
            middle = count // 2
            self._send(wire, batch.select(list(range(middle))), targets, groups)
            self._send(wire, batch.select(list(range(middle, count))), targets, groups)
            return
        try:
            body = link_body(batch)
        except Exception:  # it must not cost the publisher, whose turn this is, its connection
            self.unwritable_count += count
            log.exception("%d messages for neighbor %s could not be written", count, self.neighbor)
            return
        if len(body) + FRAME_HEAD_BYTES > self._frame_bytes_max:
            self.too_large_count += count
            return
        self._write(wire, body, count, targets, groups)

    def _write(
        self, wire: LinkWire, body: bytes, count: int, targets: int, groups: list[LinkGroup], rest: bytes = b""
    ) -> None:
        first = tuple(groups[:LINK_GROUPS_MAX])
        wire.direct(LinkMessages(self._flow_id, targets, 0, first, body, rest), count)
        for at in range(LINK_GROUPS_MAX, len(groups), LINK_GROUPS_MAX):
            more = tuple(groups[at : at + LINK_GROUPS_MAX])
            wire.direct(LinkMessages(self._flow_id, 0, 0, more, body, rest), count)

    def _arrived(self, frame: LinkMessages) -> None:
        wall_ms = self._cell.runtime.dispatcher.both_ms()[1]
        try:
            if has_packets(frame.batch):
                batch = self._packets.read(frame.batch, wall_ms)
            else:
                batch = arriving(link_batch(frame.batch), frame.sent_ms, wall_ms)
            targets = _targets_in(frame)
        except ValueError as error:
            raise self._malformed(error) from error
        self.received_count += batch.count
        self.vpn.publisher.deliver(batch, targets, self.neighbor)


def _targets_of(targets: LinkTargets) -> int:
    found = frames.SUBSCRIBERS if targets.subscribers else 0
    return found | frames.DELIVER_TO_ONE if targets.deliver_to_one else found


def _targets_in(frame: LinkMessages) -> LinkTargets:
    """Return the targets of a frame: most have the same. Raises ValueError."""
    if frame.targets == frames.SUBSCRIBERS and not frame.groups:
        return SUBSCRIBERS
    return LinkTargets(
        subscribers=frame.targets & frames.SUBSCRIBERS != 0,
        deliver_to_one=frame.targets & frames.DELIVER_TO_ONE != 0,
        groups=tuple([_group_key(each) for each in frame.groups]),
    )


def _link_group(name: str, written: tuple[str, Syntax] | None) -> LinkGroup:
    assert written is not None, "the neighbor has sent the group"
    return (written[1] is Syntax.MQTT, name, written[0])


def _group_key(group: LinkGroup) -> GroupKey:
    is_mqtt, name, text = group
    try:
        return (name, parse_filter(text, Syntax.MQTT if is_mqtt else Syntax.SMF))
    except TopicError as error:
        raise ValueError(f"a shared group with a filter that does not parse: {error}") from None
