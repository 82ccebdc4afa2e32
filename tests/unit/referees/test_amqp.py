"""The referee of AMQP finds what it is there for: each case is a conversation whose last frame is against a rule."""

import re

import pytest

from sluicegate.protocols.amqp.codec.delivery_states import (
    ACCEPTED_STATE,
    DECLARED,
    RELEASED_STATE,
    TRANSACTIONAL,
    AmqpError,
    DeliveryState,
)
from sluicegate.protocols.amqp.codec.dispositions import disposition_bytes
from sluicegate.protocols.amqp.codec.frames import HEARTBEAT, frame, sasl_frame
from sluicegate.protocols.amqp.codec.performatives import (
    CLOSE,
    END,
    INIT,
    MECHANISMS,
    OUTCOME,
    SENDER_SETTLED,
    SENDER_UNSETTLED,
    Attach,
    Begin,
    Detach,
    Flow,
    Open,
    encode_ending,
)
from sluicegate.protocols.amqp.codec.termini import Coordinator, Source, Target
from sluicegate.protocols.amqp.types.encoding import encode, encode_composite
from sluicegate.protocols.amqp.types.values import AmqpValue, Described, Symbol, ubyte, uint, ulong
from support.amqp.client import AMQP_HEADER, SASL_HEADER, body
from support.referees.amqp.connection import AmqpReferee
from support.referees.exchange import Step, hears
from support.referees.violations import WireViolation

TRANSFER = 0x14
MESSAGE = body("hello")
OUT, IN, CONTROL = 3, 4, 5  # handles: the gateway sends, it receives, it coordinates


def transfer(
    delivery_id: int | None = 0,
    tag: bytes | None = b"a",
    *,
    handle: int = OUT,
    settled: bool = False,
    more: bool = False,
    resume: bool = False,
    state: DeliveryState | None = None,
    message: bytes = MESSAGE,
) -> bytes:
    number = None if delivery_id is None else uint(delivery_id)
    fields: list[AmqpValue] = [uint(handle), number, tag, uint(0), settled, more, None]
    encoded = [*(encode(each) for each in fields), b"\x40" if state is None else state.encode(), encode(resume)]
    listed = b"".join(encoded)
    head = b"\x00\x53\x14\xd0" + (len(listed) + 4).to_bytes(4, "big") + len(encoded).to_bytes(4, "big")
    return head + listed + message


def flow(
    credit: int = -1,
    *,
    count: int = 0,
    seen: int = 0,
    sent: int = 0,
    window: int = 100,
    drain: bool = False,
    echo: bool = False,
) -> bytes:
    said = Flow(next_incoming_id=seen, incoming_window=window, next_outgoing_id=sent, outgoing_window=100)
    said.drain, said.echo = drain, echo
    if credit >= 0:
        said.handle, said.delivery_count, said.link_credit = OUT, count, credit
    return said.encode()


def disposition(first: int, last: int, *, receiver: bool, state: DeliveryState = ACCEPTED_STATE) -> bytes:
    return disposition_bytes(is_receiver=receiver, first=first, last=last, settled=True, state=state)


def begin(remote: int = 0) -> bytes:
    return Begin(remote_channel=remote, next_outgoing_id=0, incoming_window=100, outgoing_window=100).encode()


def detach(handle: int = OUT, *, closed: bool = True) -> bytes:
    return Detach(handle, closed=closed).encode()


def gateway(*said: bytes, channel: int = 0) -> list[Step]:
    return [Step(True, frame(channel, each)) for each in said]


def client(*said: bytes) -> list[Step]:
    return [Step(False, frame(0, each)) for each in said]


def in_transaction(txn_id: bytes) -> DeliveryState:
    return DeliveryState(TRANSACTIONAL, txn_id=txn_id)


def asks(delivery_id: int, request: Described) -> list[Step]:
    """A request to the coordinator."""
    return client(transfer(delivery_id, b"%d" % delivery_id, handle=CONTROL, message=body(request)))


def beginning(*, settles: int = SENDER_UNSETTLED, outcomes: list[str] | None = None) -> list[Step]:
    """A session with a link each way and a coordinator, on which the client has granted a credit of two."""
    opening = Open("c")
    opening.max_frame_size, opening.channel_max = 512, 1
    begins = Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=9, handle_max=CONTROL)
    steps = [Step(False, AMQP_HEADER), Step(True, AMQP_HEADER), *client(opening.encode(), begins.encode())]
    steps += gateway(Open("broker").encode(), begin())
    for handle, target in ((OUT, Target("here")), (IN, Target("q")), (CONTROL, Coordinator([]))):
        attach = Attach(
            f"link {handle}",
            handle=handle,
            is_receiver=handle == OUT,
            source=Source("q", outcomes=outcomes),
            target=target,
            sender_settle_mode=settles,
            initial_delivery_count=0,
        )
        steps += client(attach.encode())
        attach.is_receiver = not attach.is_receiver
        steps += gateway(attach.encode())
    return [*steps, *client(flow(2))]


def judge(steps: list[Step]) -> None:
    hears(AmqpReferee(), steps)


DECLARES = [
    *asks(0, Described(ulong(0x31), [])),
    *gateway(disposition(0, 0, receiver=True, state=DeliveryState(DECLARED, txn_id=b"t"))),
]
FOULS: dict[str, tuple[str, list[Step]]] = {
    "a frame larger than the client takes": ("2.7.1", gateway(transfer(message=body("x" * 512)))),
    "a doff of one": ("2.3.1", [Step(True, b"\0\0\0\x08\x01\0\0\0")]),
    "a size of seven": ("2.3.1", [Step(True, b"\0\0\0\x07\x02\0\0\0")]),
    "a channel without a session": ("2.5", gateway(flow(), channel=1)),
    "a second begin": ("2.5.1", gateway(begin())),
    "a begin that answers none": ("2.7.2", gateway(begin(1), channel=1)),
    "a second open": ("2.4.1", gateway(Open("broker").encode())),
    "something behind close": ("2.4.3", gateway(encode_ending(CLOSE, None), flow())),
    "something behind end": ("2.5", gateway(encode_ending(END, None), flow())),
    "an unknown condition": ("2.8.14", gateway(encode_ending(END, AmqpError("amqp:oops", "")))),
    "an attach that answers none": (
        "2.6.3",
        gateway(Attach("x", handle=1, is_receiver=True, source=None, target=None).encode()),
    ),
    "a detached handle": ("2.6.2", gateway(detach(), transfer())),
    "a closed link that is only detached": ("2.6.6", client(detach()) + gateway(detach(closed=False))),
    "a transfer beyond the credit": (
        "2.6.7",
        gateway(*[transfer(each, bytes([each])) for each in range(3)]),
    ),
    "a transfer beyond the window": (
        "2.5.6",
        client(flow(window=1)) + gateway(transfer(), transfer(1, b"b")),
    ),
    "a delivery id left out": ("2.6.12", gateway(transfer(), transfer(2, b"b"))),
    "a tag that is in use": ("2.6.12", gateway(transfer(), transfer(1))),
    "no tag": ("2.7.5", gateway(transfer(tag=None))),
    "a tag of 33 bytes": ("transfer.delivery-tag", gateway(transfer(tag=b"x" * 33))),
    "another delivery within one": ("2.7.5", gateway(transfer(more=True), transfer(1, b"b"))),
    "a settled delivery of a link that settles none": ("2.8.2", gateway(transfer(settled=True))),
    "a resumption of nothing": ("2.6.13", gateway(transfer(resume=True))),
    "no body": ("3.2", gateway(transfer(message=b""))),
    "a body before the header": (
        "3.2",
        gateway(transfer(message=MESSAGE + encode_composite(0x70, [True]))),
    ),
    "a flow of another delivery-count": ("2.6.7", gateway(transfer(), flow(2, sent=1))),
    "credit that is not there": ("2.6.7", gateway(flow(3))),
    "credit given back that nobody wants": ("2.6.7", gateway(flow(0, count=2))),
    "a wrong next-outgoing-id": ("2.7.4", gateway(transfer(), flow())),
    "a wrong next-incoming-id": ("2.7.4", gateway(flow(seen=1))),
    "an echo without an answer": (
        "2.7.4",
        client(flow(echo=True), encode_ending(END, None)) + gateway(encode_ending(END, None)),
    ),
    "an outcome of what was not sent": ("2.7.6", gateway(disposition(0, 0, receiver=True))),
    "an outcome said twice": (
        "2.7.6",
        client(transfer(handle=IN)) + 2 * gateway(disposition(0, 0, receiver=True)),
    ),
    "a range that ends before it begins": ("2.7.6", gateway(disposition(1, 0, receiver=True))),
    "an outcome outside of its transaction": (
        "4.4.1",
        DECLARES
        + client(transfer(1, b"b", handle=IN, state=in_transaction(b"t")))
        + gateway(disposition(1, 1, receiver=True)),
    ),
    "a discharge of nothing that is accepted": (
        "4.3",
        asks(0, Described(ulong(0x32), [b"t"])) + gateway(disposition(0, 0, receiver=True)),
    ),
    "a field of another type": (
        "begin.incoming-window",
        gateway(encode_composite(0x11, [None, uint(0), "9", uint(0)])),
    ),
    "a mandatory field left out": ("1.4", gateway(encode_composite(0x11, [None, uint(0)]))),
    "a symbol that is not ASCII": ("1.6", gateway(b"\0\x53\x10\xc0\x04\1\xa3\1\xff")),
}


@pytest.mark.parametrize("what", FOULS)
def test_a_violation_is_reported_with_its_section(what: str) -> None:
    section, steps = FOULS[what]
    judge(beginning())
    with pytest.raises(WireViolation, match=re.escape(section)):
        judge(beginning() + steps)


def test_permitted_exchanges_are_no_violations() -> None:
    half = len(MESSAGE) // 2
    judge(
        beginning(outcomes=["amqp:accepted:list", "amqp:declared:list"])
        + gateway(transfer(more=True, message=MESSAGE[:half]), transfer(None, None, message=MESSAGE[half:]))
        + gateway(transfer(1, b"b"))
        + client(disposition(0, 1, receiver=True), flow(5, count=2, seen=3, drain=True, echo=True))
        + gateway(transfer(2, b"a"), flow(0, count=7, sent=4))
        + DECLARES
        + client(transfer(1, b"b", handle=IN, state=in_transaction(b"t")))
        + gateway(disposition(1, 1, receiver=True, state=in_transaction(b"t")))
        + asks(2, Described(ulong(0x32), [b"t"]))
        + gateway(disposition(2, 2, receiver=True))
        + [Step(True, HEARTBEAT)]
        + client(detach(), encode_ending(CLOSE, None))
        + gateway(detach(), encode_ending(CLOSE, None))
    )


def test_an_outcome_that_the_source_does_not_name_is_called() -> None:
    """AMQP 3.5.3."""
    released = gateway(disposition(0, 0, receiver=True, state=RELEASED_STATE))
    with pytest.raises(WireViolation, match=r"3\.5\.3"):
        judge(beginning(outcomes=["amqp:accepted:list"]) + client(transfer(handle=IN)) + released)


def test_an_unsettled_delivery_of_a_link_that_sends_settled_is_called() -> None:
    """AMQP 2.8.2."""
    with pytest.raises(WireViolation, match=r"2\.8\.2"):
        judge(beginning(settles=SENDER_SETTLED) + gateway(transfer()))


SASL = [Step(False, SASL_HEADER), Step(True, SASL_HEADER)]
OFFERED = Step(True, sasl_frame(encode_composite(MECHANISMS, [Symbol("PLAIN")])))
ASKED = Step(False, sasl_frame(encode_composite(INIT, [Symbol("PLAIN")])))
REFUSED = Step(True, sasl_frame(encode_composite(OUTCOME, [ubyte(1)])))


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([REFUSED], id="an outcome before the mechanisms"),
        pytest.param([OFFERED, OFFERED], id="mechanisms twice"),
        pytest.param([OFFERED, REFUSED], id="an outcome that nobody waits for"),
        pytest.param([Step(True, frame(0, Open("broker").encode()))], id="an open among frames of SASL"),
        pytest.param([Step(True, AMQP_HEADER)], id="another header before the outcome"),
        pytest.param([OFFERED, ASKED, REFUSED, Step(True, AMQP_HEADER)], id="something behind a refusal"),
    ],
)
def test_sasl_goes_by_its_order(steps: list[Step]) -> None:
    """AMQP 5.3.2, 5.3.3.6."""
    judge(SASL + steps[:-1])
    with pytest.raises(WireViolation):
        judge(SASL + steps)


def test_nothing_comes_behind_a_header_that_refuses() -> None:
    """AMQP 2.2."""
    with pytest.raises(WireViolation, match=r"2\.2"):
        judge([Step(False, AMQP_HEADER), Step(True, SASL_HEADER), OFFERED])
