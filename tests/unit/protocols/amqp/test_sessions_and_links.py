"""What ends a link, a session or the connection, and what does not: the engine against frames written one by one."""

from collections.abc import Sequence

import pytest

from sluicegate.protocols.amqp.codec.delivery_states import AmqpError
from sluicegate.protocols.amqp.codec.frames import frame
from sluicegate.protocols.amqp.codec.performatives import Attach, Begin, Detach, Flow, Open, encode_ending
from sluicegate.protocols.amqp.codec.termini import Source, Target
from sluicegate.protocols.amqp.engine.events import AttachReceived, DeliveriesReceived, LinkDetached, PeerViolated
from sluicegate.protocols.amqp.engine.link import OutgoingLink
from sluicegate.protocols.amqp.limits import AmqpLimits
from sluicegate.protocols.amqp.types.decoding import decode
from sluicegate.protocols.amqp.types.encoding import encode_composite
from sluicegate.protocols.amqp.types.values import AmqpValue, uint
from support.amqp.engine_owner import CREDIT, EngineOwner
from support.amqp.golden import described, frames_of

AMQP = b"AMQP\x00\x01\x00\x00"
BODY = bytes.fromhex("005377a1026869")
END = 0x17
TRANSFER = 0x14
WINDOW = 1000


class Peer:
    """A client that has opened, with a session, and says what a test wants it to."""

    def __init__(
        self, *, limits: AmqpLimits | None = None, next_id: int = 0, window: int = WINDOW, idle_ms: int = 0
    ) -> None:
        self.owner = EngineOwner(limits=limits)
        self.owner.hears(AMQP, frame(0, Open("c", idle_timeout_ms=idle_ms).encode()))
        self.begin(0, next_id=next_id, window=window)
        self._sent = len(self.owner.sent)

    def says(self, performative: bytes, payload: bytes = b"", *, channel: int = 0) -> list[str]:
        """Say something, and return what is answered."""
        self.owner.hears(frame(channel, performative + payload))
        return self.answers()

    def answers(self) -> list[str]:
        """Return what the engine has written since the last time."""
        stream, self._sent = self.owner.sent[self._sent :], len(self.owner.sent)
        return [described(decode(data, 8, len(data))[0]) for _, data in frames_of(stream) if len(data) > 8]

    def begin(self, channel: int, *, next_id: int = 0, window: int = WINDOW) -> None:
        begin = Begin(next_outgoing_id=next_id, incoming_window=window, outgoing_window=WINDOW)
        self.owner.hears(frame(channel, begin.encode()))

    def attaches(self, name: str, handle: int, *, is_receiver: bool = False, channel: int = 0) -> list[str]:
        attach = Attach(
            name,
            handle=handle,
            is_receiver=is_receiver,
            source=Source("q"),
            target=Target("q"),
            initial_delivery_count=-1 if is_receiver else 0,
        )
        return self.says(attach.encode(), channel=channel)

    def transfers(
        self,
        handle: int,
        delivery_id: int | None,
        tag: bytes | None = b"t",
        *,
        more: bool = False,
        payload: bytes = BODY,
    ) -> list[str]:
        fields: list[AmqpValue] = [
            uint(handle),
            None if delivery_id is None else uint(delivery_id),
            tag,
            uint(0),
            False,
            more,
        ]
        return self.says(encode_composite(TRANSFER, fields), payload)

    def grants(self, handle: int, credit: int, *, delivery_count: int = 0, window: int = WINDOW) -> list[str]:
        flow = Flow(
            next_incoming_id=0,
            incoming_window=window,
            next_outgoing_id=0,
            outgoing_window=WINDOW,
            handle=handle,
            delivery_count=delivery_count,
            link_credit=credit,
        )
        return self.says(flow.encode())

    @property
    def stored(self) -> list[bytes]:
        return [
            payload
            for event in self.owner.events
            if isinstance(event, DeliveriesReceived)
            for payload in event.payloads
        ]


def ended(answers: Sequence[str], what: str, condition: str) -> bool:
    """Return whether the last answer ends something with a condition."""
    return bool(answers) and answers[-1].startswith(f"{what}(") and f"Symbol('{condition}')" in answers[-1]


def test_a_transfer_on_an_unknown_handle_ends_its_session_only() -> None:
    """Case 21, 2.8.17: the connection and its other sessions go on."""
    peer = Peer()
    peer.begin(1)
    peer.attaches("l", 0, channel=1)
    assert ended(peer.transfers(5, 0), "end", "amqp:session:unattached-handle")
    answers = peer.says(encode_composite(TRANSFER, [uint(0), uint(0), b"t", uint(0)]), BODY, channel=1)
    assert "disposition" in answers[0]


def test_a_handle_in_use_ends_the_session() -> None:
    """Case 22, 2.8.17."""
    peer = Peer()
    peer.attaches("a", 0)
    assert ended(peer.attaches("b", 0), "end", "amqp:session:handle-in-use")


def test_a_handle_beyond_ours_ends_the_connection() -> None:
    """2.7.2 handle-max."""
    peer = Peer(limits=AmqpLimits(handle_max=3))
    assert ended(peer.attaches("a", 4), "close", "amqp:connection:framing-error")


def test_a_window_is_opened_again_when_half_of_it_is_used() -> None:
    """Case 27, 2.5.6: so a peer never meets its end, however it hurries."""
    peer = Peer(limits=AmqpLimits(incoming_window=4))
    peer.attaches("l", 0)
    first = frame(0, encode_composite(TRANSFER, [uint(0), uint(0), b"t", uint(0), False, True]) + b"x")
    peer.owner.hears(first)
    assert "incoming-window=uint(4)" in peer.transfers(0, None, None, more=True, payload=b"x")[-1]


def test_nothing_is_sent_into_a_closed_window_whatever_the_credit() -> None:
    """Case 28, 2.5.6."""
    peer = Peer(window=0)
    peer.attaches("r", 0, is_receiver=True)
    assert peer.grants(0, 100, window=0) == []
    (answer,) = peer.says(
        Flow(next_incoming_id=0, incoming_window=10, next_outgoing_id=0, outgoing_window=WINDOW).encode()
    )
    assert answer.startswith("transfer(")


def test_ids_wrap_at_two_to_the_32() -> None:
    """Case 29, 2.8.8: both counters are serial numbers."""
    last = 0xFFFF_FFFF
    peer = Peer(next_id=last - 1)
    peer.attaches("l", 0)
    for delivery_id in (last - 1, last, 0, 1):
        (answer,) = peer.transfers(0, delivery_id)
        assert f"first=uint({delivery_id})" in answer
    assert len(peer.stored) == 4


def test_a_delivery_without_credit_costs_its_link() -> None:
    """Case 37, 2.8.18: tolerated is what was granted, and not one more."""
    peer = Peer()
    peer.attaches("l", 0)
    for delivery_id in range(CREDIT):
        peer.transfers(0, delivery_id)
    assert ended(peer.transfers(0, CREDIT), "detach", "amqp:link:transfer-limit-exceeded")
    assert len(peer.stored) == CREDIT
    assert "attach" in peer.attaches("m", 1)[0], "the session goes on"


def test_credit_that_is_taken_back_is_not_used() -> None:
    """Case 38, 2.6.7: the peer's view of the count says what was on its way."""
    peer = Peer()
    peer.attaches("r", 0, is_receiver=True)
    assert len(peer.grants(0, 1)) == 1
    assert peer.grants(0, 0, delivery_count=1) == []


@pytest.mark.parametrize(
    ("delivery_id", "tag"),
    [(None, b"t"), (0, None), (None, None), (0, b"x" * 33)],
    ids=["no id", "no tag", "neither", "long tag"],
)
def test_a_first_transfer_needs_an_id_and_a_tag(delivery_id: int | None, tag: bytes | None) -> None:
    """Cases 57 and 58, 2.7.5."""
    peer = Peer()
    peer.attaches("l", 0)
    assert ended(peer.transfers(0, delivery_id, tag), "detach", "amqp:invalid-field")
    assert peer.stored == []


def test_a_tag_is_bytes_and_no_text() -> None:
    """Case 58."""
    peer = Peer()
    peer.attaches("l", 0)
    assert "accepted" in peer.transfers(0, 0, b"\xff\xfe")[0]


def test_a_gap_in_the_delivery_ids_ends_the_session() -> None:
    """2.6.14: ids of a session count up by one."""
    peer = Peer()
    peer.attaches("l", 0)
    peer.transfers(0, 7)
    assert ended(peer.transfers(0, 9), "end", "amqp:invalid-field")


def test_a_half_received_delivery_goes_with_its_link() -> None:
    """Case 59: nothing of it is kept, and nothing of it comes back under the same handle."""
    peer = Peer(limits=AmqpLimits(message_bytes_max=1000, partial_bytes_max=1000))
    for number in range(10):
        peer.attaches(f"l{number}", 0)
        peer.transfers(0, number, more=True, payload=b"x" * 900)
        assert peer.says(Detach(0, closed=True).encode()) == ["detach(handle=uint(0), closed=True)"]
    assert peer.stored == []
    peer.attaches("whole", 0)
    assert "accepted" in peer.transfers(0, 10)[0]


def test_a_link_that_is_detached_says_nothing_more_beyond_the_window() -> None:
    """2.5.6: of a delivery that is cut by the end of its link nothing goes out for which the window has no room."""
    peer = Peer(window=2)
    sessions = peer.owner.engine.sessions
    peer.attaches("r", 0, is_receiver=True)
    peer.grants(0, 10, window=2)
    session = sessions.by_channel[0]
    sessions.send(session, session.outgoing[0], b"x" * 3 * sessions.frame_bytes_max, 0)
    peer.owner.hears()
    answers = peer.says(Detach(0, closed=True).encode())
    assert [answer.partition("(")[0] for answer in answers] == ["transfer", "detach"]
    assert session.remote_incoming_window == 0


def test_a_flood_of_frames_costs_its_link_at_the_maximum_and_no_memory() -> None:
    """Case 56, 2.7.3."""
    peer = Peer(limits=AmqpLimits(message_bytes_max=5000, partial_bytes_max=10_000))
    peer.attaches("l", 0)
    for number in range(5):
        assert peer.transfers(0, 0 if number == 0 else None, more=True, payload=b"x" * 1000) == []
    answers = peer.transfers(0, None, more=True, payload=b"x" * 1000)
    assert ended(answers, "detach", "amqp:link:message-size-exceeded")
    assert peer.transfers(0, None, more=True, payload=b"x" * 1000) == [], "what was on its way is passed over"


def test_an_ended_session_frees_its_channel() -> None:
    """2.5.4: the channel can be used again once both ends are said."""
    peer = Peer()
    assert peer.says(encode_ending(END, None)) == ["end()"]
    peer.begin(0)
    assert peer.answers()[0].startswith("begin(remote-channel=ushort(0)")


def test_silence_is_broken_and_punished_in_time() -> None:
    """Cases 14 and 15, 2.4.5: half of what the peer bears; twice of what was announced."""
    peer = Peer(limits=AmqpLimits(idle_timeout_ms=2000), idle_ms=2000)
    engine = peer.owner.engine
    opening = next(data for found, data in frames_of(peer.owner.sent) if found is not None)
    assert "idle-time-out=uint(1000)" in described(decode(opening, 8, len(opening))[0])
    beats = 0
    for now_ms in range(0, 2000, 100):
        engine.tick(now_ms)
        for piece in engine.take():
            assert piece == bytes.fromhex("0000000802000000")
            engine.wrote(now_ms)
            beats += 1
    assert beats == 1
    (violation,) = engine.tick(2001)
    assert isinstance(violation, PeerViolated)
    assert violation.condition == "amqp:resource-limit-exceeded"
    assert b"idle timeout" in b"".join(engine.take())


class Closing:
    """A peer that has closed a link whose owner answers later."""

    def __init__(self) -> None:
        self.peer = Peer()
        self.peer.attaches("r", 0, is_receiver=True)
        (attached,) = self.peer.owner.of(AttachReceived)
        assert isinstance(attached, AttachReceived)
        assert isinstance(attached.link, OutgoingLink)
        self.session, self.link = attached.session, attached.link
        self.link.answers_close_later = True
        assert self.peer.says(Detach(0, closed=True).encode()) == [], "it is the owner's to say"

    def answers(self, error: AmqpError | None = None) -> list[str]:
        events = self.peer.owner.engine.sessions.answer_close(self.session, self.link, error)
        self.peer.owner.handles(events)
        return self.peer.answers()


def test_a_closing_detach_is_answered_when_the_owner_is_ready() -> None:
    """2.6.6: the owner has heard of it, and says whether it went well."""
    closing = Closing()
    (heard,) = closing.peer.owner.of(LinkDetached)
    assert isinstance(heard, LinkDetached)
    assert heard.closed
    (answer,) = closing.answers(AmqpError("amqp:internal-error", "not stored"))
    assert answer.startswith("detach(handle=uint(0), closed=True")
    assert ended([answer], "detach", "amqp:internal-error")
    assert closing.answers() == [], "once"


def test_a_detach_that_does_not_close_is_answered_at_once() -> None:
    peer = Peer()
    peer.attaches("r", 0, is_receiver=True)
    (attached,) = peer.owner.of(AttachReceived)
    assert isinstance(attached, AttachReceived)
    assert isinstance(attached.link, OutgoingLink)
    attached.link.answers_close_later = True
    (answer,) = peer.says(Detach(0, closed=False).encode())
    assert answer.startswith("detach(")


def test_an_attach_on_the_handle_of_a_closing_link_is_answered_behind_its_detach() -> None:
    """2.7.1: our handle is the peer's, and free only then. The peer's own was free when it closed the link."""
    closing = Closing()
    assert closing.peer.attaches("s", 0, is_receiver=True) == []
    assert [each.partition("(")[0] for each in closing.answers()] == ["detach", "attach"]


@pytest.mark.parametrize("closed", [True, False])
def test_a_link_that_is_gone_before_the_closing_one_is_answered_is_answered_behind_it(closed: bool) -> None:
    closing = Closing()
    closing.peer.attaches("s", 0, is_receiver=True)
    assert closing.peer.says(Detach(0, closed=closed).encode()) == []
    assert ended(closing.peer.attaches("t", 0), "end", "amqp:session:handle-in-use"), "so that few wait"

    closing = Closing()
    closing.peer.attaches("s", 0)
    closing.peer.says(Detach(0, closed=closed).encode())
    answers = closing.answers()
    assert [each.partition("(")[0] for each in answers] == ["detach", "attach", "detach"]
    assert ("closed=True" in answers[-1]) is closed


def test_a_session_that_ends_leaves_no_detach_behind() -> None:
    closing = Closing()
    (answer,) = closing.peer.says(encode_ending(END, None))
    assert answer.startswith("end(")
    assert closing.answers() == []
