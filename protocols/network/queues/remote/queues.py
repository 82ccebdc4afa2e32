"""The queues of a neighbor that clients of this broker use, and what goes between them and the link."""

from collections.abc import Collection
from typing import Final, final

from sluicegate.actors.messages.data import Confirmed, PublishFailed, RenewLock, Settle
from sluicegate.actors.messages.queues import FlowOverview
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.actors.runtime.supervision import ONE_CONNECTION
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.refusals import REFUSAL_TEXTS, REFUSED_NOT_STORED
from sluicegate.protocols.flow.codec.frames.link_flow import OF_READER, LinkDeliver
from sluicegate.protocols.network.queues import notes
from sluicegate.protocols.network.queues.channel import QueuesChannel
from sluicegate.protocols.network.queues.notes import FlowNote, note_body
from sluicegate.protocols.network.queues.remote.link import AWAY, QueueEnd, QueueLink
from sluicegate.protocols.network.queues.remote.queue import RemoteQueue
from sluicegate.protocols.network.queues.remote.readers import RemoteReaders

UNUSED_MS: Final = 60_000  # a queue without flows that nobody looks for is forgotten after this time, or twice
UNSERVED: Final = "its broker {neighbor} has a release that serves no consumers of other brokers"


@final
class RemoteQueues(QueueLink):
    """The queues of one neighbor that consumers of this broker use, in one message VPN."""

    def __init__(self, cell: ActorCell, neighbor: str, vpn: str) -> None:
        """`vpn` is the name of the message VPN at the neighbor."""
        super().__init__(neighbor, RemoteReaders(cell, neighbor))
        self.vpn: Final = vpn
        self._cell = cell
        self._channel: QueuesChannel | None = None
        self._is_unserved = False  # the neighbor is linked, and does not know of flows
        self._is_swept = False  # queues that are not used are looked for
        self._queues: dict[str, tuple[ActorCell, RemoteQueue]] = {}
        self._by_flow: dict[int, QueueEnd] = {}
        self._awaited: dict[int, tuple[int, Address]] = {}  # token -> flow, who waits for the settlement
        self._renewals: dict[int, tuple[int, LoopFuture[int]]] = {}  # token -> flow, how many locks were renewed

    @property
    def incarnation(self) -> int:
        """The incarnation of the neighbor's spool, in which sequences are valid; 0 while the link is down."""
        return 0 if self._channel is None else self._channel.incarnation

    def absence(self) -> str:
        """Return why the neighbor cannot be asked; empty: it can."""
        if self._is_unserved:
            return UNSERVED.format(neighbor=self.neighbor)
        return AWAY.format(neighbor=self.neighbor) if self._channel is None else ""

    @property
    def flows_count(self) -> int:
        """The number of consumers and browsers."""
        return len(self._by_flow)

    def flows_of(self, clients: Collection[str]) -> list[tuple[str, FlowOverview]]:
        """Return the flows of clients of these names, each with the name of its queue."""
        return [
            (name, flow)
            for name, (_, queue) in self._queues.items()
            for flow in queue.flows()
            if flow.client in clients
        ]

    def queue(self, name: str) -> tuple[ActorCell, RemoteQueue]:
        """Return the actor of a queue. It stays while there are flows, and for some time without."""
        if not self._is_swept:
            self._is_swept = True
            self._cell.after(UNUSED_MS, self._sweep)
        found = self._queues.get(name)
        if found is None or found[0].is_stopped():
            made: list[RemoteQueue] = []

            def make(cell: ActorCell) -> RemoteQueue:
                made.append(RemoteQueue(cell, name, self))
                return made[-1]

            cell = self._cell.runtime.spawn(
                make, kind="remote-queue", name=name, policy=ONE_CONNECTION, parent=self._cell
            )
            found = self._queues[name] = (cell, made[-1])
        found[1].is_found = True
        return found

    def _sweep(self) -> None:
        """Stop the actors of queues that nobody has looked for since the last time, and that have no flows."""
        for name, (cell, queue) in list(self._queues.items()):
            if not queue.is_found and not queue.has_flows():
                del self._queues[name]
                cell.stop()
            queue.is_found = False
        self._is_swept = len(self._queues) > 0
        if self._is_swept:
            self._cell.after(UNUSED_MS, self._sweep)

    # --- the connection ---

    def connected(self, channel: QueuesChannel, *, serves_consumers: bool, serves_readers: bool) -> None:
        """Begin on a new connection, without flows. The flags say what the neighbor knows of."""
        self._channel = channel
        self._is_unserved = not serves_consumers
        self.readers.connected(channel, is_served=serves_readers)

    def disconnected(self) -> None:
        """End all flows, and refuse settlements that wait: consumers bind anew."""
        self._channel = None
        self._is_unserved = False
        self.readers.disconnected()
        awaited, self._awaited = self._awaited, {}
        for _, reply_to in awaited.values():
            reply_to.post(PublishFailed(0, AWAY.format(neighbor=self.neighbor)))
        renewals, self._renewals = self._renewals, {}
        for _, answer in renewals.values():
            answer.set(0)
        for _, queue in list(self._queues.values()):
            queue.lost(f"503 Service Unavailable: {AWAY.format(neighbor=self.neighbor)}", may_return=True)

    def stop(self) -> None:
        """End for good."""
        self.disconnected()
        for cell, _ in self._queues.values():
            cell.stop()
        self._queues.clear()

    # --- for the queues ---

    def begin(self, flow_id: int, queue: QueueEnd) -> None:
        """Note whose a flow is."""
        self._by_flow[flow_id] = queue

    def end(self, flow_id: int) -> None:
        """Forget a flow, and refuse its settlements that wait."""
        self._by_flow.pop(flow_id, None)
        for token, (flow, reply_to) in list(self._awaited.items()):
            if flow == flow_id:
                del self._awaited[token]
                reply_to.post(PublishFailed(0, "its flow has ended"))
        for token, (flow, answer) in list(self._renewals.items()):
            if flow == flow_id:
                del self._renewals[token]
                answer.set(0)

    def say(self, kind: int, flow_id: int, *values: object) -> None:
        """Tell the neighbor something of a flow."""
        if self._channel is not None:
            self._channel.send_first(note_body(kind, flow_id, *values))

    def settle(self, number: int, settle: Settle, token: int) -> None:
        """Tell the neighbor the outcome of messages of a partition. Of flows that have ended it needs none."""
        queue = self._by_flow.get(settle.flow_id)
        if queue is not None:
            ranges = settle.ranges
            queue.settled(settle.flow_id, number, sum([end - first for first, end in ranges]))
            self.say(
                notes.SETTLE,
                settle.flow_id,
                number,
                settle.epoch,
                settle.outcome,
                settle.delivery_count,
                settle.cause,
                token,
                ranges,
            )

    def renew(self, number: int, request: RenewLock) -> LoopFuture[int]:
        """Have locks renewed; the answer is the number of messages that the flow still holds."""
        answer: LoopFuture[int] = LoopFuture()
        if request.flow_id not in self._by_flow or self._channel is None:
            answer.set(0)
            return answer
        token = self._cell.runtime.next_urn()
        self._renewals[token] = (request.flow_id, answer)
        values = (number, request.epoch, int(request.delivery_count), request.ranges, token)
        self.say(notes.RENEW, request.flow_id, *values)
        return answer

    def awaits(self, flow_id: int, reply_to: Address) -> int:
        """Return a token for a settlement that is to be answered; 0: the flow has ended."""
        if flow_id not in self._by_flow or self._channel is None:
            return 0
        token = self._cell.runtime.next_urn()
        self._awaited[token] = (flow_id, reply_to)
        return token

    # --- what the neighbor says ---

    def delivered(self, frame: LinkDeliver) -> None:
        """Take messages. Raises ValueError."""
        queue = self._by_flow.get(frame.consumer)
        if queue is not None:
            queue.deliver(frame)
        elif frame.flags & OF_READER:
            self.readers.delivered(frame)
        else:  # its end may have failed to reach the neighbor, where it would hold the messages for ever
            self.say(notes.UNBIND, frame.consumer, False, True)

    def received(self, note: FlowNote) -> None:
        """Take a note. Raises ValueError."""
        if note.kind == notes.SETTLED:
            awaited = self._awaited.pop(note.number(0), None)
            if awaited is not None:
                verdict = note.number(1)
                if verdict >= len(REFUSAL_TEXTS):  # of a later release
                    verdict = REFUSED_NOT_STORED
                awaited[1].post(PublishFailed(0, note.text(2), verdict) if verdict else Confirmed(0))
            return
        if note.kind == notes.RENEWED:
            renewal = self._renewals.pop(note.number(0), None)
            if renewal is not None:
                renewal[1].set(note.number(1))
            return
        queue = self._by_flow.get(note.consumer)
        if queue is not None:
            queue.told(note)
