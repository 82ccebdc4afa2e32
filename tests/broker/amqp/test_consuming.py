"""AMQP consumers on a whole node: outcomes, ranges, lost sessions, times, priorities."""

import pytest

from sluicegate.protocols.amqp.codec.delivery_states import ACCEPTED, MODIFIED, REJECTED, RELEASED, DeliveryState
from sluicegate.protocols.amqp.codec.termini import Source
from sluicegate.protocols.amqp.types.decoding import decode
from sluicegate.protocols.amqp.types.encoding import encode
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Described, Scalar, Symbol, ubyte, uint, ulong
from support.amqp.client import AmqpClient, AmqpClients, body
from support.amqp.received import Ended, Received
from support.broker.named_queues import create, shown, shows
from support.broker.running_broker import RunningBroker

IN, OUT = 1, 0
FAILED = DeliveryState(MODIFIED, delivery_failed=True)
NOTED = DeliveryState(MODIFIED, annotations=AmqpMap([(Symbol("x-why"), "too late")]))
ACCEPT = DeliveryState(ACCEPTED)


async def client(amqp: AmqpClients, container: str = "client", *, credit: int = 100) -> AmqpClient:
    """Return a client with a sender to the queue `q` on handle 0 and a receiver from it on handle 1."""
    opened = await amqp.connect(container)
    await opened.sender("out", "q", handle=OUT)
    await opened.receiver("in", "q", handle=IN, credit=credit)
    return opened


async def send(peer: AmqpClient, *values: AmqpValue) -> None:
    """Send messages, and wait until they are accepted."""
    for delivery_id in [peer.transfer(OUT, body(value)) for value in values]:
        assert (await peer.outcome(delivery_id)).code == ACCEPTED


def header_of(message: Received) -> dict[str, AmqpValue]:
    """Return the header section of a message by the names of its fields."""
    value, _ = decode(message.message, 0, len(message.message))
    assert isinstance(value, Described)
    assert isinstance(value.value, list)
    return dict(zip(("durable", "priority", "ttl", "first-acquirer", "delivery-count"), value.value, strict=False))


def with_sections(code: int, value: AmqpValue, text: str = "x") -> bytes:
    """Return a message with one section before its body."""
    return encode(Described(ulong(code), value)) + body(text)


async def test_a_range_settles_what_is_known_of_it(broker: RunningBroker, amqp: AmqpClients) -> None:
    """Case 50, 2.6.12: ids that are settled already, or never were, are passed over."""
    await create(broker)
    peer = await client(amqp)
    await send(peer, *range(5))
    messages = await peer.deliveries(5)
    peer.settle(messages[2].delivery_id, messages[2].delivery_id, ACCEPT)
    peer.settle(messages[0].delivery_id, messages[4].delivery_id + 100, ACCEPT)
    await shows(broker, lambda view: view.ready_count + view.unacked_count == 0)


async def test_a_message_that_was_given_back_untouched_has_been_acquired(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """AMQP 3.2.1, 3.4.4: its delivery-count stays, and first-acquirer is true for nobody after the first."""
    await create(broker)
    peer = await client(amqp)
    await send(peer, 1)
    headers = []
    for _ in range(2):
        message = await peer.delivery()
        headers.append(header_of(message))
        peer.settle(message.delivery_id, message.delivery_id, DeliveryState(RELEASED))
    assert [each.get("first-acquirer") for each in headers] == [True, None]
    assert [each.get("delivery-count") for each in headers] == [None, None]


async def test_a_message_is_as_durable_as_its_sender_said(broker: RunningBroker, amqp: AmqpClients) -> None:
    """AMQP 3.2.1: absent means false. Each of them is stored, for it waited for its outcome."""
    await create(broker)
    sender = await amqp.connect("sender")
    await sender.sender("out", "q", handle=OUT)
    headers: list[list[AmqpValue] | None] = [[True], [False], None]
    for header in headers:
        data = body("x") if header is None else with_sections(0x70, header)
        assert (await sender.outcome(sender.transfer(OUT, data))).code == ACCEPTED
    await broker.restart()
    receiver = await amqp.connect("receiver")
    await receiver.receiver("in", "q", handle=IN, credit=10)
    assert [header_of(each).get("durable") for each in await receiver.deliveries(3)] == [True, None, None]


async def test_an_outcome_that_is_not_settled_gets_an_answer(broker: RunningBroker, amqp: AmqpClients) -> None:
    """Case 51, 2.6.12: the message is gone, and we say so with the same state."""
    await create(broker)
    peer = await client(amqp)
    await send(peer, "x")
    message = await peer.delivery()
    peer.settle(message.delivery_id, message.delivery_id, ACCEPT, settled=False)
    state, is_settled = await peer.said_of(message.delivery_id)
    assert (state.code, is_settled) == (ACCEPTED, True)
    await shows(broker, lambda view: view.ready_count + view.unacked_count == 0)


@pytest.mark.parametrize("outcome", [ACCEPT, FAILED, NOTED, DeliveryState(RELEASED), DeliveryState(REJECTED)])
async def test_a_late_settlement_does_not_settle_the_next_delivery(
    broker: RunningBroker, amqp: AmqpClients, outcome: DeliveryState
) -> None:
    """The message came again meanwhile, to the same link."""
    await create(broker, consumer_ack_timeout_ms=60_000)
    peer = await client(amqp)
    await send(peer, "x")
    late = await peer.delivery()
    broker.clock.forward(65)  # a sixteenth of the time may be added
    await shown(broker)  # gives the queue a turn
    again = await peer.delivery()
    peer.settle(late.delivery_id, late.delivery_id, outcome)
    await peer.round_trip()
    view = await shown(broker)
    assert (view.ready_count, view.unacked_count) == (0, 1)
    peer.settle(again.delivery_id, again.delivery_id, DeliveryState(RELEASED))
    last = await peer.delivery()
    assert last.message == again.message
    peer.settle(last.delivery_id, last.delivery_id, ACCEPT)
    await shows(broker, lambda view: view.ready_count + view.unacked_count == 0)


async def test_settled_without_an_outcome_means_the_default_outcome(broker: RunningBroker, amqp: AmqpClients) -> None:
    """Case 52, 3.5.3: as the source named it; released when it named none."""
    await create(broker)
    peer = await amqp.connect()
    await peer.sender("out", "q", handle=OUT)
    await peer.receiver("failing", Source("q", default_outcome=FAILED), handle=IN, credit=1)
    await send(peer, "x")
    message = await peer.delivery()
    peer.settle(message.delivery_id, message.delivery_id, None)
    peer.flow(IN, 1, delivery_count=1)
    again = await peer.delivery()
    assert again.delivery_count == 1
    peer.settle(again.delivery_id, again.delivery_id, None)
    await peer.detached(IN, closed=True)
    await peer.receiver("plain", "q", handle=IN, credit=10)
    third = await peer.delivery()
    assert third.delivery_count == 2
    peer.settle(third.delivery_id, third.delivery_id, None)
    assert (await peer.delivery()).delivery_count == 2, "released: its count stays"


async def test_unsettled_messages_of_an_ended_session_are_redelivered_in_order(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """Case 31, 2.5.4: links go with their session, and their messages go back to their places."""
    await create(broker, access_type="non-exclusive")
    peer = await amqp.connect()
    await peer.sender("out", "q", handle=OUT)
    await peer.begin(1)
    await peer.receiver("a", "q", handle=0, credit=3, channel=1)
    await send(peer, *range(6))
    held = [await peer.delivery(channel=1) for _ in range(3)]
    assert [message.body for message in held] == [0, 1, 2]
    await peer.ended(1)
    await peer.receiver("b", "q", handle=IN, credit=10)
    arrived = await peer.deliveries(6)
    assert [message.body for message in arrived] == [0, 1, 2, 3, 4, 5]
    assert [message.delivery_count for message in arrived] == [1, 1, 1, 0, 0, 0]


async def test_a_slow_consumer_does_not_hold_back_a_fast_one(broker: RunningBroker, amqp: AmqpClients) -> None:
    """Case 40: who has no credit left waits alone."""
    await create(broker, access_type="non-exclusive")
    slow = await client(amqp, "slow", credit=1)
    await send(slow, "first")
    assert (await slow.delivery()).body == "first"
    fast = await client(amqp, "fast")
    await send(fast, *range(20))
    assert [message.body for message in await fast.deliveries(20)] == list(range(20))


async def test_the_time_to_live_is_what_is_left_of_it(broker: RunningBroker, amqp: AmqpClients) -> None:
    """Case 83, 3.2.1: a message that waited two seconds of five has at most three left; one that waited six is gone."""
    await create(broker, respect_ttl_enabled=True)
    peer = await amqp.connect()
    await peer.sender("out", "q", handle=OUT)
    for ttl_ms, text in ((600_000, "long"), (5_000, "short")):
        delivery_id = peer.transfer(OUT, with_sections(0x70, [True, None, uint(ttl_ms)], text))
        assert (await peer.outcome(delivery_id)).code == ACCEPTED
    broker.forward(30)
    await peer.receiver("in", "q", handle=IN, credit=100)
    message = await peer.delivery()
    assert message.body == "long"
    ttl = header_of(message)["ttl"]
    assert isinstance(ttl, Scalar)
    assert isinstance(ttl.value, int)
    assert 0 < ttl.value <= 570_000
    peer.settle(message.delivery_id, message.delivery_id, ACCEPT)
    await shows(broker, lambda view: view.ready_count + view.unacked_count == 0)


@pytest.mark.parametrize("annotation", ["x-opt-delivery-time", "x-opt-delivery-delay"])
async def test_a_delayed_message_lets_others_pass(broker: RunningBroker, amqp: AmqpClients, annotation: str) -> None:
    """Case 84: by a moment, or by a delay of an hour; nothing else waits for it."""
    await create(broker)
    peer = await client(amqp)
    hour_ms = 3_600_000
    value = hour_ms + (broker.clock.wall_ms() if annotation.endswith("time") else 0)
    delayed = with_sections(0x72, AmqpMap([(Symbol(annotation), value)]), "late")
    assert (await peer.outcome(peer.transfer(OUT, delayed))).code == ACCEPTED
    await send(peer, "soon")
    assert (await peer.delivery()).body == "soon"
    await peer.round_trip()
    assert peer.nothing_waits(Received)


async def test_a_priority_beyond_nine_is_nine_and_nonsense_is_rejected(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """Case 86 and 3.2: what is no message of AMQP costs that message, and its link goes on."""
    await create(broker)
    peer = await client(amqp)
    assert (await peer.outcome(peer.transfer(OUT, with_sections(0x70, [None, ubyte(200)])))).code == ACCEPTED
    assert header_of(await peer.delivery())["priority"] == ubyte(9)
    nested = AmqpMap([("map", AmqpMap([("a", 1)]))])
    assert (await peer.outcome(peer.transfer(OUT, with_sections(0x74, nested)))).code == ACCEPTED, "kept as it is"
    for broken in (b"\x00\x53\x77", body("x") + body("y"), with_sections(0x74, AmqpMap([(1, 2)])), b"plain"):
        outcome = await peer.outcome(peer.transfer(OUT, broken))
        assert outcome.code == REJECTED
        assert outcome.error is not None
        assert outcome.error.condition == "amqp:decode-error"
    await send(peer, "next")


async def test_an_attach_is_answered_with_what_is_in_force(broker: RunningBroker, amqp: AmqpClients) -> None:
    """Case 30, 2.6.3: durability of queues is theirs, settlement is first, and unknown filters are not echoed."""
    await create(broker)
    peer = await amqp.connect()
    asked = Source("q", durable=2, filters=AmqpMap([(Symbol("x"), Described(Symbol("nobody:knows"), "y"))]))
    answer = await peer.receiver("in", asked, handle=IN)
    assert isinstance(answer.source, Source)
    assert (answer.source.durable, answer.source.filters) == (0, None)
    assert answer.receiver_settle_mode == 0


async def test_a_node_that_stops_says_so_and_keeps_what_consumers_held(
    broker: RunningBroker, amqp: AmqpClients
) -> None:
    """Case 18: `amqp:connection:forced`; the messages are there for the next."""
    await create(broker)
    peer = await client(amqp)
    await send(peer, "x")
    await peer.delivery()
    await broker.stop()
    close = await peer.awaited(Ended)
    assert close.error is not None
    assert close.error.condition == "amqp:connection:forced"
    await broker.start()
    again = await client(amqp, "next")
    assert (await again.delivery()).delivery_count == 1
