"""What a connection sends of what a partition delivers to it."""

from collections.abc import Callable

import pytest

from actors.clock import SystemClock
from actors.data_messages import Deliveries, Settle
from actors.inbox import Dispatcher, Inbox, Scheduled
from messaging.batch import EXACTLY_ONCE
from messaging.flows import DeliveryRules
from messaging.ledger import Ledger
from messaging.publication import Publication
from messaging.selectors import Selectors
from messaging.settlement import DISCARD_NOT_STORED
from messaging.topics import Syntax, parse_filter
from mqtt_conversation import connected
from protocols.counters import ProtocolCounters
from protocols.mqtt.delivering import BoundFlow, DeliveringSide
from protocols.mqtt.events import AcknowledgementReceived
from protocols.mqtt.first_bytes import PUBREC
from protocols.mqtt.granted import GrantedSubscription
from protocols.mqtt.reason_codes import SUCCESS
from protocols.mqtt.session import Session, StoredSession
from unit.cores.messages import batch_of, flow_of, published, window_of


class OneMessage:
    """A QoS 2 message on its way from a session's queue, or a named one, to the client."""

    def __init__(self, *, is_named_queue: bool = False) -> None:
        self.conversation = connected(level=5)
        self.session = Session("c", expiry_s=60)
        self.session.table.grant("t", GrantedSubscription(parse_filter("t", Syntax.MQTT), 2, False, False, 0, 0, None))
        self.after_ids: list[Callable[[], None]] = []  # what waits until the packet ids are in the store
        self.window = window_of(10)
        dispatcher = Dispatcher(call_soon=lambda _: None, clock=SystemClock(), on_fatal=lambda _: None)
        self.side = DeliveringSide(
            engine=self.conversation.engine,
            level=5,
            session=self.session,
            window=self.window,
            dispatcher=dispatcher,
            before_exactly_once=self._before_exactly_once,
            clock=SystemClock(),
            counters=ProtocolCounters(),
            later=lambda: None,
        )
        self.partition = Inbox(dispatcher, Scheduled())
        self.ledger, flow = Ledger(durable=True, rules=DeliveryRules()), flow_of(1, window=self.window)
        ids = None if is_named_queue else self.session.ids
        self.side.flows[1] = BoundFlow(self.partition, None, ids, is_named_queue=is_named_queue)
        self.ledger.attach(flow, 1)
        batch = batch_of([b"once"])
        batch.qos = EXACTLY_ONCE
        self.publication = published(batch)
        self.publication.sequenced(1, self.ledger.append(self.publication.batch, self.publication), None)
        self.side.deliver(Deliveries(flow, self.partition, 0, self.ledger.deliver(0)))

    def _before_exactly_once(self, callback: Callable[[], None], _: Publication | None) -> None:
        self.after_ids.append(callback)

    def store_ids(self) -> None:
        """Have the packet ids written, as they are now."""
        callbacks, self.after_ids = self.after_ids, []
        for callback in callbacks:
            callback()

    def settled(self) -> list[tuple[int, int]]:
        """Return which sequences the partition was told to settle."""
        settlements = [message for message in self.partition.items if isinstance(message, Settle)]
        return [each for settlement in settlements for each in settlement.ranges]


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_qos_2_message_that_the_store_has_refused_meanwhile_is_not_sent(is_refused: bool) -> None:
    """[4.3.3-1]: its publisher sends it again, and to the subscriber that would be another message."""
    its = OneMessage()
    its.publication.refused = is_refused
    its.store_ids()

    for message in its.partition.items:
        assert isinstance(message, Settle)
        for first, end in message.ranges:
            its.ledger.settle(message.flow_id, first, end, message.outcome)
    assert (b"once" in its.conversation.said()) is not is_refused
    assert its.window.used == len(its.session.ids.exactly_once) == (0 if is_refused else 1)
    assert its.ledger.effects.discards == ({DISCARD_NOT_STORED: 1} if is_refused else {})


def test_a_qos_2_message_is_settled_once_the_store_knows_that_the_client_has_it() -> None:
    """[4.3.3-1] [2.2.1-3]: settled alone, a restart would give its id to a message that the client then passes over."""
    its = OneMessage()
    its.store_ids()
    assert its.side.acknowledged(AcknowledgementReceived(PUBREC, 1, 1, SUCCESS))
    assert its.settled() == []

    row = its.session.ids_row()
    stored = StoredSession(
        "c", its.session.state_row(will=None, closed_wall_ms=0), row, [], Selectors({}), row_prefix=b""
    ).session
    assert (stored.released.ranges(), stored.ids.remembered, stored.ids.taken.ranges()) == ([(1, 2)], {}, [(1, 2)])

    its.store_ids()
    assert its.settled() == [(1, 2)]


def test_a_qos_2_message_that_the_client_has_is_settled_when_the_connection_ends_before_the_store_knows() -> None:
    """The session's directory has the ids written then."""
    its = OneMessage()
    its.store_ids()
    its.side.acknowledged(AcknowledgementReceived(PUBREC, 1, 1, SUCCESS))
    its.side.remember()
    its.store_ids()
    assert its.settled() == [(1, 2)]


def test_a_client_that_comes_back_forgets_what_a_named_queue_gives_to_somebody_else_meanwhile() -> None:
    """[4.4.0-1]: else the next message under that id would be the same to it, and be passed over."""
    its = OneMessage(is_named_queue=True)
    its.side.remember()
    assert its.session.released.ranges() == [(1, 2)]
    assert its.session.ids.remembered == {}
