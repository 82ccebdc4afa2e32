"""The engine and proton, a client that others wrote, on a pretend wire: links, transfers, outcomes, credit."""

import pytest
from proton import Delivery, Message

from sluicegate.protocols.amqp.codec.delivery_states import MODIFIED, REJECTED, RELEASED, AmqpError
from sluicegate.protocols.amqp.engine.events import (
    CloseReceived,
    DeliveriesReceived,
    DispositionReceived,
    LinkDetached,
    SessionEnded,
)
from sluicegate.protocols.amqp.engine.link import IncomingLink, OutgoingLink
from sluicegate.protocols.amqp.limits import AmqpLimits
from support.amqp.proton_peer import Wire, accept, body_of, received_messages, remote_condition


def deliveries(wire: Wire) -> list[DeliveriesReceived]:
    return [event for event in wire.events if isinstance(event, DeliveriesReceived)]


def dispositions(wire: Wire) -> list[DispositionReceived]:
    return [event for event in wire.events if isinstance(event, DispositionReceived)]


def outgoing(wire: Wire, name: str) -> OutgoingLink:
    link = wire.outgoing[name].link
    assert isinstance(link, OutgoingLink)
    return link


def incoming(wire: Wire) -> IncomingLink:
    link = deliveries(wire)[-1].link
    assert isinstance(link, IncomingLink)
    return link


def test_a_message_travels_in_and_its_outcome_back() -> None:
    wire = Wire()
    link = wire.sender(wire.connect(), "l")
    delivery = wire.send(link, Message(body="hello"), b"t1")
    assert delivery.remote_state == Delivery.ACCEPTED
    assert delivery.settled
    assert wire.stored == [Message(body="hello").encode()]


def test_a_message_of_many_frames_arrives_whole() -> None:
    """2.6.14: a delivery spans transfers as long as `more` says so."""
    wire = Wire(limits=AmqpLimits(frame_bytes_max=4096))
    link = wire.sender(wire.connect(), "l")
    wire.send(link, Message(body=b"x" * 500_000), b"t1")
    assert wire.stored == [Message(body=b"x" * 500_000).encode()]


def test_deliveries_of_two_links_interleave_frame_by_frame() -> None:
    """Case 26, 2.6.14: within one link only one delivery is open; across links frames mix freely."""
    wire = Wire(limits=AmqpLimits(frame_bytes_max=4096))
    session = wire.connect()
    first, second = wire.sender(session, "a"), wire.sender(session, "b")
    bodies = {"a": b"a" * 20_000, "b": b"b" * 20_000}
    for link in (first, second):
        link.delivery("t" + link.name)
        link.send(Message(body=bodies[link.name]).encode())
        link.advance()
    wire.run()
    assert sorted(wire.stored) == sorted(Message(body=body).encode() for body in bodies.values())


def test_outcomes_of_one_read_are_one_disposition() -> None:
    """Case 43, 2.7.6: a disposition speaks of a range."""
    wire = Wire(credit=1000)
    link = wire.sender(wire.connect(), "l")
    tags: list[Delivery] = []
    for number in range(500):
        tags.append(link.delivery(f"t{number}"))
        link.send(Message(body=number).encode())
        link.advance()
    before = wire.to_client_bytes
    wire.run()
    assert all(tag.remote_state == Delivery.ACCEPTED for tag in tags)
    assert wire.to_client_bytes - before < 500, "not a frame for each of 500 deliveries"


def test_sent_frames_obey_the_peers_frame_size() -> None:
    """Case 13, 2.7.1: no frame is larger than the peer's max-frame-size."""
    wire = Wire()
    link = wire.receiver(wire.connect(max_frame_size=512), "r", credit=10)
    wire.deliver("r", bytes(Message(body=b"y" * 10_000).encode()))
    (message,) = received_messages(link, accept)
    assert body_of(message) == b"y" * 10_000


def test_credit_is_what_may_be_sent_and_no_more() -> None:
    """2.6.7: the receiver's credit bounds deliveries, and what is on its way uses it up."""
    wire = Wire()
    link = wire.receiver(wire.connect(), "r", credit=3)
    for number in range(3):
        wire.deliver("r", bytes(Message(body=number).encode()))
    assert outgoing(wire, "r").credit == 0
    link.flow(2)
    wire.run()
    assert outgoing(wire, "r").credit == 2


def test_a_drained_link_has_used_up_its_credit() -> None:
    """2.6.7: with drain, what is not used by messages is used up by the sender's delivery count."""
    wire = Wire()
    link = wire.receiver(wire.connect(), "r")
    link.drain(10)
    wire.run()
    assert outgoing(wire, "r").drain
    wire.deliver("r", bytes(Message(body=1).encode()))
    wire.engine.sessions.drained(wire.outgoing["r"].session, outgoing(wire, "r"))
    wire.run()
    assert [message.body for message in received_messages(link, accept)] == [1]
    assert link.credit == 0
    assert outgoing(wire, "r").credit == 0
    assert not link.draining()


@pytest.mark.parametrize(
    ("outcome", "code"), [(Delivery.RELEASED, RELEASED), (Delivery.REJECTED, REJECTED), (Delivery.MODIFIED, MODIFIED)]
)
def test_every_outcome_of_a_consumer_arrives(outcome: int, code: int) -> None:
    """3.4: accepted, rejected, released, modified."""
    wire = Wire()
    link = wire.receiver(wire.connect(), "r", credit=1)
    wire.deliver("r", bytes(Message(body=1).encode()))

    def settle(delivery: Delivery) -> None:
        delivery.local.failed = True
        delivery.update(outcome)
        delivery.settle()

    received_messages(link, settle)
    wire.run()
    (event,) = dispositions(wire)
    assert event.disposition.is_receiver
    assert event.disposition.settled
    state = event.disposition.state
    assert state is not None
    assert state.code == code
    if code == MODIFIED:
        assert state.delivery_failed


def test_a_presettled_delivery_wants_no_outcome() -> None:
    """2.6.12: what the sender has settled is settled."""
    wire = Wire()
    link = wire.sender(wire.connect(), "l")
    delivery = link.delivery("t")
    link.send(Message(body=1).encode())
    delivery.settle()
    wire.run()
    (event,) = deliveries(wire)
    assert event.settled


def test_an_aborted_delivery_leaves_nothing() -> None:
    """2.7.5: the bytes are forgotten, the credit is used, nobody is told."""
    wire = Wire(limits=AmqpLimits(frame_bytes_max=4096))
    link = wire.sender(wire.connect(), "l")
    delivery = link.delivery("t1")
    link.stream(b"z" * 20_000)
    wire.run()
    delivery.abort()
    wire.run()
    wire.send(link, Message(body="next"), b"t2")
    assert wire.stored == [Message(body="next").encode()]
    assert incoming(wire).credit == 98


def test_a_refused_link_hears_why() -> None:
    """2.6.3: attach without a terminus, then a detach with the error."""
    wire = Wire()
    session = wire.connect()
    link = wire.sender(session, "l")
    wire.send(link, Message(body=1), b"t")
    event = deliveries(wire)[0]
    error = AmqpError("amqp:unauthorized-access", "not for you")
    wire.engine.sessions.detach(event.session, event.link, closed=True, error=error)
    wire.run()
    assert remote_condition(link) == "amqp:unauthorized-access"


def test_a_message_larger_than_the_link_takes_costs_the_link_only() -> None:
    """2.7.3 max-message-size: the link ends, the session and its other links go on."""
    wire = Wire(limits=AmqpLimits(message_bytes_max=10_000, partial_bytes_max=20_000))
    session = wire.connect()
    small, large = wire.sender(session, "small"), wire.sender(session, "large")
    wire.send(large, Message(body=b"x" * 50_000), b"t")
    assert remote_condition(large) == "amqp:link:message-size-exceeded"
    assert wire.send(small, Message(body="fits"), b"t").remote_state == Delivery.ACCEPTED


def test_detach_end_and_close_are_answered_in_kind() -> None:
    """2.6.4, 2.5.4, 2.4.3."""
    wire = Wire()
    session = wire.connect()
    link = wire.sender(session, "l")
    link.detach()
    wire.run()
    session.close()
    wire.run()
    wire.connection.close()
    wire.run()
    kinds = [type(event) for event in wire.events if isinstance(event, (LinkDetached, SessionEnded, CloseReceived))]
    assert kinds == [LinkDetached, SessionEnded, CloseReceived]
    detached = next(event for event in wire.events if isinstance(event, LinkDetached))
    assert not detached.closed
