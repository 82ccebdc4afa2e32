"""The referee of the flow protocol finds what it is there for: each case's last frame is against the specification."""

import re

import pytest

from sluicegate.protocols.flow.codec import frame as frames
from sluicegate.protocols.flow.codec.frames.deliver import DeliverHead, write_deliver
from sluicegate.protocols.flow.codec.frames.flow import Bind, Bound, FlowEnd, FlowState, OpenPub, PubOpened
from sluicegate.protocols.flow.codec.frames.partition import Partitions, PartitionState
from sluicegate.protocols.flow.codec.frames.publish import PubAck, Refusal, write_publish
from sluicegate.protocols.flow.codec.frames.session import Auth, AuthAnswer, Close, Error, Goaway, Hello, Welcome
from sluicegate.protocols.flow.codec.frames.settle import Credit, Ping, Settle, Settled
from sluicegate.protocols.flow.codec.frames.subscription import Subscribe
from support.flow.golden import compressed_frames, golden_frames
from support.referees.exchange import Step, client, gateway, hears
from support.referees.flow.connection import FlowProtocolReferee, Names, matches
from support.referees.flow.consumer import SettleTimes
from support.referees.violations import WireViolation

GOLDEN = {frame.name: frame.data for frame in golden_frames()}
PUBLISHER, CONSUMER, READER = 1, 2, 3  # flow ids


def delivers(
    delivery_id: int, message_id: int = 0, *, count: int = 1, redelivered: bool = False, flow_id: int = CONSUMER
) -> bytes:
    epoch = 1 if flow_id else 0
    head = DeliverHead(
        flow_id,
        0,
        epoch,
        delivery_count=count,
        redelivered=redelivered,
        was_direct=False,
        first_of_group=False,
        received_ms=1,
    )
    message_id = (message_id or delivery_id) if flow_id else 0
    return write_deliver(head, delivery_id, message_id, topic=b"a/b", headers=None, payload=b"x", wall_ms=1)


def publishes(*sequences: int) -> list[Step]:
    return client(
        *[write_publish(PUBLISHER, each, "a", b"x", None, to_queue=False, ttl_ms=0, delay_ms=0) for each in sequences]
    )


def acks(through: int, limit: int = 20, *refusals: Refusal) -> bytes:
    return PubAck(PUBLISHER, through, limit, list(refusals)).encode()


def opened(*, epoch: int = 1, through: int = 0, highest: int = 0, limit: int = 10) -> bytes:
    return PubOpened(PUBLISHER, 7, epoch, through, highest, limit, 99).encode()


def state(number: int, value: int = 1) -> bytes:
    return FlowState(CONSUMER, value, number, 0, "", None).encode()


def listed(number: int, value: int) -> bytes:
    return Partitions(CONSUMER, number, (PartitionState(0, 1, value, 0),)).encode()


def credit(through: int, *, is_recall: bool = False, is_response: bool = False) -> bytes:
    return Credit(CONSUMER, through, is_recall, is_response).encode()


def settles(delivery_id: int, outcome: int) -> list[Step]:
    return client(Settle(CONSUMER, 0, ((delivery_id, delivery_id, outcome),)).encode())


WELCOME = Welcome("gateway", 10_000, 65_536, 16, (), ("ANONYMOUS",)).encode()
HELLO = Hello("client", "test", 10_000, ("deflate",)).encode()
PREFACES = client(frames.PREFACE) + gateway(frames.PREFACE)
GREETED = PREFACES + client(HELLO) + gateway(WELCOME)
BEGINNING = GREETED + client(Auth("ANONYMOUS", None).encode()) + gateway(AuthAnswer(1, None).encode())
REFUSED = client(Auth("PLAIN", b"").encode()) + gateway(AuthAnswer(2, None).encode())
PUBLISHING = client(OpenPub(PUBLISHER, 7, "till", 10).encode()) + gateway(opened())
BIND = client(Bind(CONSUMER, 8, "orders", 2, 3).encode())
BOUND = BIND + gateway(Bound(CONSUMER, 8, 2, 99).encode(), state(1))
LISTED = client(Bind(CONSUMER, 8, "orders", 2, 3, acknowledges=True).encode()) + gateway(
    Bound(CONSUMER, 8, 2, 99, acknowledges=True).encode(), listed(1, 0), state(1)
)
READING = client(GOLDEN["read"]) + gateway(GOLDEN["reading"])


def judge(*connections: list[Step]) -> None:
    names = Names()
    for steps in connections:
        hears(FlowProtocolReferee(names, SettleTimes()), steps)


FOULS: dict[str, tuple[str, list[Step]]] = {
    "a length that is none": ("Frames", gateway(bytes(12))),
    "a flag that is none": ("Frames", gateway(Close(0, "").encode()[:5] + b"\x40" + Close(0, "").encode()[6:])),
    "a frame of clients": ("Frame types", gateway(HELLO)),
    "a field of another frame": ("Frame types", gateway(WELCOME[:4] + b"\x07" + WELCOME[5:])),
    "a code that is none": ("Errors", gateway(Close(0x9999, "").encode())),
    "a second WELCOME": ("Sessions", gateway(WELCOME, WELCOME)),
    "an AUTH that answers nothing": ("Sessions 4", gateway(AuthAnswer(1, None).encode())),
    "something behind CLOSE": ("The end", gateway(Close(0, "").encode(), Ping(1, False).encode())),
    "something behind the connection's ERROR": ("The end", gateway(*2 * [Error(0, 0, 0x201, "", None).encode()])),
    "GOAWAY twice": ("The end", gateway(*2 * [Goaway(1, "stops", 1).encode()])),
    "a delivery behind GOAWAY": ("The end", BOUND + gateway(Goaway(1, "stops", 1).encode(), delivers(1))),
    "a PONG of another PING": ("Keep-alive", client(Ping(1, False).encode()) + gateway(Ping(2, True).encode())),
    "compression that is not in force": (
        "Compression", gateway(next(each.data for each in compressed_frames() if each.name == "rows-compressed"))
    ),
    "an answer to nothing": ("Frame types", gateway(opened())),
    "an answer to another request": ("Frame types", BIND + gateway(opened())),
    "an ERROR to nothing": ("Frame types", gateway(Error(0, 5, 0x301, "", None).encode())),
    "a flow that is not there": ("Frames", gateway(delivers(1))),
    "a flow before its answer": ("Frames", BIND + gateway(delivers(1))),
    "a flow that was refused": ("Frames", BIND + gateway(Error(CONSUMER, 8, 0x301, "", None).encode(), state(1))),
    "a flow that was unbound": (
        "Frames",
        BOUND
        + client(FlowEnd(frames.UNBIND, CONSUMER, 9, False).encode())
        + gateway(FlowEnd(frames.UNBIND, CONSUMER, 9, True).encode(), delivers(1)),
    ),
    "more than was published": ("Publishing", PUBLISHING + publishes(1) + gateway(acks(2))),
    "an answer twice": ("Publishing", PUBLISHING + publishes(1) + gateway(acks(1), acks(1))),
    "a limit that falls": ("Publishing", PUBLISHING + publishes(1) + gateway(acks(1, 9))),
    "a refusal beyond what is answered": (
        "Publishing", PUBLISHING + publishes(1, 2) + gateway(acks(1, 20, Refusal(2, 2, 0x502, "full")))
    ),
    "a refusal of what was not published": (
        "Publishing", PUBLISHING + publishes(1, 5) + gateway(acks(5, 20, Refusal(2, 5, 0x502, "full")))
    ),
    "a delivery id that is left out": ("Consuming", BOUND + gateway(delivers(2))),
    "more than there is credit for": (
        "Credit",
        BOUND + gateway(delivers(1), delivers(2)) + settles(1, 0) + settles(2, 0) + gateway(delivers(3), delivers(4)),
    ),
    "more than may be held": ("Credit", BOUND + gateway(delivers(1), delivers(2), delivers(3))),
    "a recalled delivery": (
        "Credit",
        BOUND + client(credit(1, is_recall=True)) + gateway(credit(1, is_response=True), delivers(1), delivers(2)),
    ),
    "a CREDIT to no recall": ("Credit", BOUND + client(credit(9)) + gateway(credit(9, is_response=True))),
    "a recall to more than there was": (
        "Credit", BOUND + client(credit(1, is_recall=True)) + gateway(credit(9, is_response=True))
    ),
    "a message twice at once": ("Settlement", BOUND + gateway(delivers(1), delivers(2, 1, redelivered=True))),
    "a message that was accepted": (
        "Settlement", BOUND + gateway(delivers(1)) + settles(1, 0) + gateway(delivers(2, 1, redelivered=True))
    ),
    "a count that does not rise": (
        "Settlement", BOUND + gateway(delivers(1)) + settles(1, 2) + gateway(delivers(2, 1, redelivered=True))
    ),
    "a redelivery that is not flagged": (
        "Consuming", BOUND + gateway(delivers(1)) + settles(1, 1) + gateway(delivers(2, 1))
    ),
    "SETTLED of what nobody named": ("Settlement", BOUND + gateway(Settled(CONSUMER, ((5, 6),)).encode())),
    "a delivery on a flow that stands by": (
        "States", BIND + gateway(Bound(CONSUMER, 8, 2, 99).encode(), state(1, 0), delivers(1))
    ),
    "a state twice": ("States", BOUND + gateway(state(2))),
    "a state number that is left out": ("States", BOUND + gateway(state(3, 0))),
    "a list that was not asked for": ("Consuming", BOUND + gateway(listed(1, 0))),
    "a delivery of a partition that drains": ("Partitions", LISTED + gateway(listed(2, 1), delivers(1))),
    "a direct message that nobody subscribes to": (
        "Subscriptions", client(Subscribe(frames.SUBSCRIBE, 9, "a/c").encode()) + gateway(delivers(0, flow_id=0))
    ),
    "rows that were read before": ("Reading in bulk", READING + gateway(*2 * [GOLDEN["rows"]])),
    "a chunk that is left out": ("Reading in bulk", READING + gateway(GOLDEN["rows-all-columns"])),
}  # fmt: skip


@pytest.mark.parametrize("what", FOULS)
def test_a_violation_is_reported_with_its_section(what: str) -> None:
    section, steps = FOULS[what]
    judge(BEGINNING + steps[:-1])
    with pytest.raises(WireViolation, match=re.escape(section)):
        judge(BEGINNING + steps)


@pytest.mark.parametrize(
    ("section", "steps"),
    [
        ("Sessions 1", gateway(b"\xb5GFP\x02\x00\x00\x00")),
        ("Sessions 3", PREFACES + gateway(WELCOME)),
        ("Sessions", GREETED + gateway(Ping(1, False).encode())),
        ("Before authentication", GREETED + 4 * REFUSED),
    ],
)  # fmt: skip
def test_a_session_begins_by_the_rules(section: str, steps: list[Step]) -> None:
    with pytest.raises(WireViolation, match=section):
        judge(steps)


@pytest.mark.parametrize(
    "answer",
    [
        opened(epoch=1, through=4, highest=4),  # the epoch of before
        opened(epoch=2, through=4, highest=3, limit=20),  # less than was confirmed
        opened(epoch=2, through=0, highest=0),
    ],
)
def test_a_publisher_that_returns_finds_what_was_confirmed(answer: bytes) -> None:
    first = BEGINNING + PUBLISHING + publishes(1, 2, 4) + gateway(acks(4))
    again = BEGINNING + client(OpenPub(PUBLISHER, 7, "till", 10).encode())
    judge(first, again + gateway(opened(epoch=2, through=4, highest=4)))
    with pytest.raises(WireViolation):
        judge(first, again + gateway(answer))


def test_messages_not_settled_in_time_come_again() -> None:
    again = gateway(delivers(2, 1, count=2, redelivered=True))
    judge(BEGINNING + BOUND + gateway(delivers(1)) + again)
    in_vain = settles(1, 0) + gateway(Settled(CONSUMER, ((1, 1),)).encode())
    judge(BEGINNING + BOUND + gateway(delivers(1)) + in_vain + again)


def judge_times(*moments: tuple[int, list[Step]]) -> None:
    """Judge a consumer of a queue that leaves it 3000 ms, by what is said when, in ms."""
    clock = [0]
    times = SettleTimes({"orders": 3000}.__getitem__, lambda: clock[0])
    referee = FlowProtocolReferee(Names(), times)
    hears(referee, BEGINNING + BOUND + gateway(delivers(1)))
    for now_ms, steps in moments:
        clock[0] = now_ms
        hears(referee, steps)


@pytest.mark.parametrize("outcome", [0, 3])
def test_messages_settled_too_late_come_again_as_failed(outcome: int) -> None:
    settled, extended = settles(1, outcome), settles(1, 4)
    again = gateway(delivers(2, 1, count=2, redelivered=True))
    judge_times((3000, settled + again))
    judge_times((1000, extended), (4000, settled + again))
    judge_times((3000, extended), (4000, settled + again))
    with pytest.raises(WireViolation, match="Settlement: the count"):
        judge_times((3000, settled + gateway(delivers(2, 1, count=1, redelivered=True))))
    with pytest.raises(WireViolation, match="comes again"):
        judge_times((2999, settled), (9000, again))
    with pytest.raises(WireViolation, match="comes again"):
        judge_times((1000, extended), (3999, settled + again))


def test_permitted_exchanges_are_no_violations() -> None:
    judge(
        BEGINNING
        + PUBLISHING
        + publishes(1, 2, 4, 5)
        + gateway(acks(2), acks(5, 22, Refusal(5, 5, 0x502, "full")))
        + BOUND
        + gateway(delivers(1), delivers(2))
        + settles(1, 2)
        + gateway(delivers(3, 1, count=2, redelivered=True))
        + client(credit(9), credit(2, is_recall=True), credit(4))
        + settles(1, 0)
        + gateway(credit(3, is_response=True), Settled(CONSUMER, ((1, 1),)).encode())
        + settles(2, 0)
        + gateway(delivers(4), state(2, 0), state(3))
        + READING
        + gateway(GOLDEN["rows"])
        + client(Subscribe(frames.SUBSCRIBE, 9, "a/>").encode())
        + gateway(delivers(0, flow_id=0), Goaway(1, "stops", 1).encode(), Close(1, "").encode())
    )


@pytest.mark.parametrize(
    ("text", "topic", "is_match"),
    [
        ("a/>", "a/b/c", True),
        ("a/>", "a", False),
        ("a/b*", "a/bc", True),
        ("*/b", "a/b", True),
        ("#share/x/a/*", "a/b", True),
        ("a/#", "a", True),
        ("+/b", "a/c", False),
        ("$share/x/+/b", "a/b", True),
    ],
)
def test_filters_are_read_in_both_syntaxes(text: str, topic: str, *, is_match: bool) -> None:
    assert matches(text, topic) == is_match
