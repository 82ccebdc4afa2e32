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
from messaging.settlement import DISCARD_NOT_STORED
from messaging.topics import Syntax, parse_filter
from mqtt_conversation import connected
from protocols.counters import ProtocolCounters
from protocols.mqtt.delivering import BoundFlow, DeliveringSide
from protocols.mqtt.granted import GrantedSubscription
from protocols.mqtt.session import Session
from unit.cores.messages import batch_of, flow_of, published, window_of


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_qos_2_message_that_the_store_has_refused_meanwhile_is_not_sent(is_refused: bool) -> None:
    """[4.3.3-1]: its publisher sends it again, and to the subscriber that would be another message."""
    conversation = connected(level=5)
    session = Session("c", expiry_s=60)
    session.table.grant("t", GrantedSubscription(parse_filter("t", Syntax.MQTT), 2, False, False, 0, 0, None))
    after_ids: list[Callable[[], None]] = []

    def before_exactly_once(callback: Callable[[], None], _: Publication | None) -> None:
        after_ids.append(callback)

    window = window_of(10)
    dispatcher = Dispatcher(call_soon=lambda _: None, clock=SystemClock(), on_fatal=lambda _: None)
    side = DeliveringSide(
        engine=conversation.engine,
        level=5,
        session=session,
        window=window,
        dispatcher=dispatcher,
        before_exactly_once=before_exactly_once,
        clock=SystemClock(),
        counters=ProtocolCounters(),
        later=lambda: None,
    )
    partition = Inbox(dispatcher, Scheduled())
    ledger, flow = Ledger(durable=True, rules=DeliveryRules()), flow_of(1, window=window)
    side.flows[1] = BoundFlow(partition, None, session.ids, is_named_queue=False)
    ledger.attach(flow, 1)
    batch = batch_of([b"once"])
    batch.qos = EXACTLY_ONCE
    publication = published(batch)
    publication.sequenced(1, ledger.append(publication.batch, publication), None)
    side.deliver(Deliveries(flow, partition, 0, ledger.deliver(0)))

    publication.refused = is_refused
    for callback in after_ids:
        callback()

    for message in partition.items:
        assert isinstance(message, Settle)
        for first, end in message.ranges:
            ledger.settle(message.flow_id, first, end, message.outcome)
    assert (b"once" in conversation.said()) is not is_refused
    assert window.used == len(session.ids.exactly_once) == (0 if is_refused else 1)
    assert ledger.effects.discards == ({DISCARD_NOT_STORED: 1} if is_refused else {})
