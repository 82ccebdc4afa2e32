"""One message VPN of one link: it begins and ends what crosses, and carries direct messages both ways.

It exists for as long as the link is configured. Between connections it keeps what the neighbor wants (`interests`), so
that a break costs little. Its router then sends no direct messages there, and stores guaranteed ones in the link's
queue (`link_queue`, the way out; `arrivals`, the way in).
"""

import logging
from typing import Final, final

from sluicegate.actors.messages.data import Confirmed, Deliveries, PublishFailed
from sluicegate.actors.messages.directory import FindElsewhere, QueueHandle
from sluicegate.actors.messages.queues import FlowGone
from sluicegate.actors.messages.router import NeighborGone, NeighborPresenceChanged
from sluicegate.actors.network.link_batches import PIECE_BYTES, link_batch_at, link_body
from sluicegate.actors.publishing.link_publisher import LinkPublisher
from sluicegate.actors.queues.elsewhere import queue_elsewhere
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.inbox import Flushed, Scheduled
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.network.clients import NetworkClients
from sluicegate.messaging.network.interest import Change, text_of
from sluicegate.messaging.network.link import SUBSCRIBERS, GroupKey, InterestWaiter, LinkOutput, LinkTargets
from sluicegate.messaging.network.times import arriving, leaving
from sluicegate.messaging.queues.credit import CreditPool
from sluicegate.messaging.routing.destinations import QueueTarget
from sluicegate.messaging.routing.local_interest import ExportRules
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.messaging.topics.syntax import Syntax, TopicError, parse_filter
from sluicegate.protocols.flow.codec.codes import MALFORMED, PeerViolation
from sluicegate.protocols.flow.codec.frames import link as frames
from sluicegate.protocols.flow.codec.frames.link import (
    TAKES_PACKETS,
    TELLS_CLIENTS,
    TELLS_NEIGHBORS,
    Link,
    LinkAck,
    LinkClients,
    LinkGroup,
    LinkInterests,
    LinkMessages,
    LinkNeighbors,
    LinkRetained,
    LinkStore,
    LinkStored,
    VpnFrame,
)
from sluicegate.protocols.flow.codec.frames.link_flow import (
    ACTS,
    ANSWERS,
    HOLDS_FOR_CLIENTS,
    MOVES,
    SERVES_CONSUMERS,
    SERVES_READERS,
    LinkDeliver,
    LinkFlow,
)
from sluicegate.protocols.flow.codec.limits import LINK_GROUPS_MAX
from sluicegate.protocols.flow.links import LinkWire
from sluicegate.protocols.network.exchange.clients import ClientsLink
from sluicegate.protocols.network.exchange.mesh import VpnMesh
from sluicegate.protocols.network.exchange.packets import PacketsReader, has_packets, packets_of
from sluicegate.protocols.network.guaranteed.arrivals import LinkArrivals
from sluicegate.protocols.network.guaranteed.kept import KeptLink
from sluicegate.protocols.network.guaranteed.link_queue import FRAME_HEAD_BYTES, LinkQueueSender
from sluicegate.protocols.network.interests import InterestLink
from sluicegate.protocols.network.moves.moves import VpnMoves
from sluicegate.protocols.network.queues.channel import QueuesChannel
from sluicegate.protocols.network.queues.home.flows import HomeFlows
from sluicegate.protocols.network.queues.home.readers import HomeReaders
from sluicegate.protocols.network.queues.notes import OF_CONSUMERS, OF_MOVES, OF_OPERATORS, READER, TO_READERS, note_in
from sluicegate.protocols.network.queues.questions import Answerer, Questions
from sluicegate.protocols.network.queues.remote.queues import RemoteQueues
from sluicegate.protocols.network.retained.link import RetainedLink

log = logging.getLogger("sluicegate.network")

NEIGHBORS_HEAD_BYTES: Final = 64  # of LINK_NEIGHBORS, beside its names
PACKETS_BYTES_MAX: Final = 1024 * 1024  # a publisher's packets go in one frame; more are split into messages


@final
class AbsentNeighbor(LinkOutput):
    """A neighbor before its link begins: guaranteed messages are stored for it, and nothing is sent."""

    def __init__(self, neighbor: str, *, is_sibling: bool) -> None:
        super().__init__(neighbor, is_sibling=is_sibling)
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
        cursors: ActorCell,
        selectors: Selectors,
        credit: CreditPool[Address],
        answerer: Answerer,
        clients: NetworkClients,
        sessions: ActorCell,
        publishers: ActorCell,
        siblings: frozenset[str],
        events: Events,
    ) -> None:
        """`kept` has neighbors by their names, those that were made so far. `was_clean`: the node was stopped in order
        before. `sessions`, `publishers` and `siblings` are as `VpnMoves` has them."""
        self.name = name
        self.space = space
        self.router = router
        self.publisher = publisher
        self.spool = spool
        self.kept = kept
        self.queues = queues
        self.cursors = cursors
        self.selectors = selectors
        self.credit = credit
        self.answerer = answerer
        self.clients = clients
        self.moves: Final = VpnMoves(
            queues,
            cursors,
            broker=space.broker,
            space=space,
            spool=spool,
            kept=kept,
            router=router,
            sessions=sessions,
            publishers=publishers,
            siblings=siblings,
            answerer=answerer,
            events=events,
        )
        self.links: dict[str, RemoteQueues] = {}  # by neighbor, of links that there are
        self._was_clean = was_clean
        self._siblings = siblings
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
        output = self._absent[neighbor] = AbsentNeighbor(neighbor, is_sibling=neighbor in self._siblings)
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
        return queue_elsewhere(home, cell, queue.clients, remote.incarnation, remote.vpn)

    def forget(self, neighbor: str) -> None:
        """Forget what was kept of a neighbor that has no link."""
        self.moves.forget(neighbor)
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
        super().__init__(neighbor, is_sibling=rules.to_sibling)
        self.vpn: Final = vpn
        self.mesh: Final = mesh
        self.there: Final = there  # name of the message VPN at the neighbor
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
        self.home_readers: Final = HomeReaders(cell, neighbor, queues=vpn.queues, cursors=vpn.cursors)
        self.remote_queues: Final = RemoteQueues(cell, neighbor, there)
        self.questions: Final = Questions(cell, neighbor, vpn.name, vpn.answerer)
        vpn.links[neighbor] = self.remote_queues
        self.interests: Final = InterestLink(
            cell,
            self,
            kept,
            vpn=vpn.name,
            router=vpn.router,
            spool=vpn.spool,
            subscribe_wait_ms=subscribe_wait_ms,
            events=events,
            retained=self.retained.sender,
            ask_flush=self._ask_flush,
        )
        self.moves: Final = vpn.moves.link(cell, neighbor, self.interests.are_in_force)
        # A client identifier has one home among the brokers of a machine (`messaging.clients.homes`).
        self.clients: Final = None if rules.to_sibling else ClientsLink(vpn.clients, neighbor, self._ask_flush)
        self._begin(queue.target, rules)

    def _begin(self, target: QueueTarget, rules: ExportRules) -> None:
        """Have messages routed to the neighbor and stored for it, and tell it what is wanted here."""
        vpn = self.vpn
        vpn.link_begins(self.neighbor)
        vpn.space.change_neighbor(self, Change(list(self.kept.interests), []))
        vpn.space.keep_for(self, target)
        self.interests.change(vpn.space.exported().export_to(self, self.interests.change, rules))

    def stop(self) -> None:
        """End for good."""
        self.disconnected()
        self.remote_queues.stop()
        self.vpn.links.pop(self.neighbor, None)
        self.vpn.moves.link_ends(self.neighbor)
        self.interests.stop()
        self.retained.stop()
        if self.clients is not None:
            self.clients.stop()
        self.vpn.space.keep_for(self, None)
        self.vpn.link_ends(self.neighbor)
        self.vpn.router.ask(NeighborGone(self))
        self.vpn.space.exported().end_export(self)

    # --- the connection ---

    def connected(self, wire: LinkWire, flow_id: int, frame_bytes_max: int, greeting: Link) -> None:
        """Begin on a new connection. `greeting` is the neighbor's."""
        self._wire = wire
        self._flow_id = flow_id
        self._frame_bytes_max = frame_bytes_max
        self._takes_packets = TAKES_PACKETS in greeting.features
        self.interests.connected(wire, flow_id, frame_bytes_max)
        self.arrivals.connected(self._cell, wire, flow_id, frame_bytes_max, self._ask_flush)
        self.queue_sender.connected(wire, flow_id, frame_bytes_max, is_wide=frames.WIDE_WINDOW in greeting.features)
        if frames.RETAINED in greeting.features:
            self.retained.connected(wire, flow_id, frame_bytes_max, self._ask_flush)
        if self.clients is not None and TELLS_CLIENTS in greeting.features:
            self.clients.connected(wire, flow_id, frame_bytes_max, self._cell.runtime.clock.now_ms())
        self._connect_queues(QueuesChannel(wire, flow_id, frame_bytes_max, greeting.incarnation), greeting)
        self._set_up(True)
        self.mesh.joined(self.neighbor, self._tell_neighbors if TELLS_NEIGHBORS in greeting.features else None)

    def _connect_queues(self, channel: QueuesChannel, greeting: Link) -> None:
        features = greeting.features
        serves_consumers, serves_readers = SERVES_CONSUMERS in features, SERVES_READERS in features
        if serves_consumers:
            self.home_flows.connected(channel)
        if serves_readers:
            self.home_readers.connected(channel)
        self.remote_queues.connected(channel, serves_consumers=serves_consumers, serves_readers=serves_readers)
        self.questions.connected(channel, is_answered=ANSWERS in features, acts=ACTS in features)
        self.moves.connected(channel, knows_moves=MOVES in features, holds_for_clients=HOLDS_FOR_CLIENTS in features)
        if MOVES in features:
            self.vpn.moves.connected(self.neighbor)

    def disconnected(self) -> None:
        """The connection is gone."""
        if self._wire is not None:
            self._wire = None
            self.interests.disconnected()
            self.arrivals.disconnected()
            self.queue_sender.disconnected()
            self.retained.disconnected()
            if self.clients is not None:
                self.clients.disconnected(self._cell.runtime.clock.now_ms())
            self.home_flows.disconnected()
            self.home_readers.disconnected()
            self.remote_queues.disconnected()
            self.questions.disconnected()
            self.moves.disconnected()
            self._set_up(False)
            self.mesh.left(self.neighbor)

    def _tell_neighbors(self, names: list[str]) -> None:
        """Tell the neighbor which brokers this one is linked to, as many as a frame has room for."""
        if self._wire is not None:
            told: list[str] = []
            left_bytes = self._frame_bytes_max - NEIGHBORS_HEAD_BYTES
            for name in names:
                left_bytes -= 2 + len(name.encode())
                if left_bytes < 0:
                    break  # a link that is missing there is seen later, or at another neighbor
                told.append(name)
            self._wire.control(LinkNeighbors(self._flow_id, tuple(told)).encode())

    def _set_up(self, is_up: bool) -> None:
        self.is_up = is_up
        self.vpn.router.inbox.post(NeighborPresenceChanged(self))

    def received(self, frame: VpnFrame) -> None:
        """Handle a frame of the neighbor. Raises PeerViolation."""
        if isinstance(frame, LinkMessages):
            self._arrived(frame)
            return
        if isinstance(frame, LinkStore):
            self.arrivals.arrived(frame, self._guaranteed(frame))
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
                elif note.kind in OF_MOVES:
                    self.moves.received(note)
                elif note.kind in OF_OPERATORS:
                    self.questions.received(note)
                elif note.kind == READER:
                    self.home_readers.received(note)
                elif note.kind in TO_READERS:
                    self.remote_queues.readers.received(note)
                else:
                    self.remote_queues.received(note)
            elif isinstance(frame, LinkInterests):
                self.interests.told(frame)
            elif isinstance(frame, LinkAck):
                self.interests.acknowledged(frame)
            elif isinstance(frame, LinkRetained):
                self.retained.received(frame.body)
            elif isinstance(frame, LinkClients):
                if self.clients is None:
                    raise ValueError("LINK_CLIENTS of a broker that was not told to send any")
                self.clients.received(frame.body)
            else:
                self.interests.told_digests(frame)
        except ValueError as error:
            raise self._malformed(error) from error

    def _guaranteed(self, frame: LinkStore) -> MessageBatch:
        try:
            batch = link_batch_at(frame.batch, frame.batch_at, frame.batch_end)
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
            self.interests.stored(message)

    # --- what goes out at the end of a turn ---

    def wait_until_known(self, waiter: InterestWaiter) -> bool:
        """Tell a waiter when the neighbor knows all of the interest; see `LinkOutput`."""
        return self.is_up and self.interests.wait_until_known(waiter)

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
        has_more_clients = self.clients is not None and self.clients.flush()
        if has_more_clients or self.interests.flush(wire) or self.retained.flush():
            self._ask_flush()
        self.interests.acknowledge(wire)

    def owner(self) -> Scheduled | None:
        """Return the link's actor."""
        return self._cell

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
            data, start, end = frame.batch, frame.batch_at, frame.batch_end
            if has_packets(data, start, end):
                batch = self._packets.read(data, start, end, wall_ms)
            else:
                batch = arriving(link_batch_at(data, start, end), frame.sent_ms, wall_ms)
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
