"""A connection to which a queue delivers a QoS 2 message, and the store that it waits for, step by step."""

from collections.abc import Callable

from sluicegate.actors.messages.data import Deliveries, Settle
from sluicegate.actors.messages.partitions import ReleaseUnsent
from sluicegate.actors.runtime.clock import SystemClock
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.inbox import Dispatcher, Inbox
from sluicegate.messaging.message.batch import EXACTLY_ONCE
from sluicegate.messaging.message.publication import Publication
from sluicegate.messaging.partitions.ledger import Ledger
from sluicegate.messaging.partitions.state.flows import DeliveryRules
from sluicegate.messaging.partitions.suspended_flows import release_unsent
from sluicegate.messaging.routing.retained_messages import RetainedMessage, RetainedMessages
from sluicegate.messaging.selectors.selector import Selectors
from sluicegate.messaging.topics.syntax import Syntax, parse_filter
from sluicegate.protocols.connection.counters import ProtocolCounters
from sluicegate.protocols.mqtt.datapath.delivering import BoundFlow, Deliverer
from sluicegate.protocols.mqtt.session.session import ExtraSubscription, Session
from sluicegate.protocols.mqtt.session.stored import StoredSession
from sluicegate.protocols.mqtt.session.subscriptions import GrantedSubscription
from support.cores.messages import batch_of, flow_of, published, window_of
from support.mqtt.conversation import connected

OWN, SHARED, NAMED = "the session's own queue", "that of a shared subscription", "a named queue"
SHARE = "$share/g/t"


def subscription_at(qos: int) -> GrantedSubscription:
    """Return one to the topic of all messages here."""
    return GrantedSubscription(parse_filter("t", Syntax.MQTT), qos, False, False, 0, 0, None)


class OneMessage:
    """A QoS 2 message on its way from a queue to the client."""

    def __init__(self, queue: str = OWN) -> None:
        self.session = Session("c", expiry_s=60)
        self.session.grant("t", subscription_at(2))
        self.after_ids: list[Callable[[], None]] = []  # what waits until the packet ids are in the store
        self.window = window_of(10)
        self._dispatcher = Dispatcher(call_soon=lambda _: None, clock=SystemClock(), on_fatal=lambda _: None)
        self._connect()
        self.partition = Inbox(self._dispatcher)
        self.ledger, flow = Ledger(durable=True, rules=DeliveryRules()), flow_of(1, window=self.window)
        self.extra = None if queue == OWN else ExtraSubscription(SHARE if queue == SHARED else "$queue/q", 2, 0, False)
        if queue == SHARED and self.extra is not None:
            self.session.add_share(self.extra)
        self._bind(queue)
        self.ledger.attach(flow, 1)
        self._flow = flow
        self.publication = self.publish(b"once", EXACTLY_ONCE)

    def _connect(self) -> None:
        self.conversation = connected(level=5)
        self.side = Deliverer(
            engine=self.conversation.engine,
            level=5,
            session=self.session,
            window=self.window,
            dispatcher=self._dispatcher,
            before_exactly_once=self._before_exactly_once,
            clock=SystemClock(),
            counters=ProtocolCounters(),
            later=lambda: None,
            address=Inbox(self._dispatcher),
            events=Events(SystemClock()),
        )

    def _bind(self, queue: str) -> None:
        ids = {OWN: self.session.ids, SHARED: None if self.extra is None else self.extra.ids}.get(queue)
        if ids is not None:
            ids.set_partition(7)
        self.side.flows[1] = BoundFlow(self.partition, self.extra, ids, is_named_queue=queue == NAMED)

    def publish(self, payload: bytes, qos: int) -> Publication:
        """Have a message delivered to the connection."""
        batch = batch_of([payload])
        batch.qos = qos
        publication = published(batch)
        publication.sequenced(1, self.ledger.append(publication.batch, publication), None)
        self.deliver()
        return publication

    def deliver(self) -> None:
        """Let the queue deliver all that it can."""
        self.side.deliver(Deliveries(self._flow, self.partition, 0, self.ledger.deliver(0)))

    def _before_exactly_once(self, callback: Callable[[], None], _: Publication | None) -> None:
        self.after_ids.append(callback)

    def store_ids(self) -> None:
        """Have the packet ids written, as they are now."""
        callbacks, self.after_ids = self.after_ids, []
        for callback in callbacks:
            callback()

    def after_a_crash(self) -> Session:
        """Return the session as the store has it once the ids are written."""
        row = self.session.ids_row()
        state = self.session.state_row(will=None, closed_wall_ms=0)
        for text in (*self.session.table.by_filter, *self.session.shares, *self.session.queues):
            self.session.changed(text)
        subscriptions = [each for _, each in self.session.unstored_rows() if each is not None]
        stored = StoredSession("c", state, row, [], subscriptions, Selectors({}), row_prefix=b"")
        for each in stored.extras:
            if each.filter_text == SHARE:
                stored.session.add_share(each)
        return stored.session

    def crash(self) -> None:
        """Connect again after a crash that left what the store has."""
        self.session = self.after_a_crash()
        self._connect()

    def comes_back(self, queue: str = OWN) -> None:
        """Connect again, and have what was not answered delivered again."""
        self.ledger.detach(1, count_as_failed=False)
        self.after_ids.clear()
        self._connect()
        self._bind(queue)
        self.ledger.attach(self._flow, 2)

    def unsubscribe(self) -> None:
        """End the subscription whose flow it is."""
        if self.extra is not None:
            self.session.shares.pop(self.extra.filter_text, None)
            self.side.disown(self.extra.ids)
            del self.side.flows[1]

    def give_back(self) -> None:
        """Have the queue know, before the flow ends, what was not sent."""
        self.side.flows[1].release_unsent(1, self.side.queued)
        for message in self.partition.items:
            if isinstance(message, ReleaseUnsent):
                release_unsent(self.ledger, message.flow_id, message.epoch, message.ranges)

    def settled(self) -> list[tuple[int, int]]:
        """Return the sequences whose settlement the partition got."""
        settlements = [message for message in self.partition.items if isinstance(message, Settle)]
        return [each for settlement in settlements for each in settlement.ranges]


def retained_once(its: OneMessage) -> None:
    """Have a subscription bring a retained message of QoS 2."""
    batch = batch_of([b"kept"])
    batch.qos, batch.retain = EXACTLY_ONCE, True
    kept = RetainedMessages()
    kept.put("t", RetainedMessage(batch))
    granted = subscription_at(2)
    its.side.retained.add(kept.scan(granted.topic_filter), granted, 0)
