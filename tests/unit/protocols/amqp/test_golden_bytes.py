"""AMQP's bytes as others write them, from `tests/data/amqp`: read for what they are, and written in the same order.

Composites are named by the table that was made from the XML of the specification, so a field in the wrong place shows.
"""

from collections.abc import Callable

import pytest

from sluicegate.protocols.amqp.codec import delivery_states as outcomes
from sluicegate.protocols.amqp.codec import performatives
from sluicegate.protocols.amqp.codec import performatives as sasl_frames
from sluicegate.protocols.amqp.codec.delivery_states import AmqpError, DeliveryState
from sluicegate.protocols.amqp.codec.dispositions import disposition_bytes, read_disposition
from sluicegate.protocols.amqp.codec.frames import frame
from sluicegate.protocols.amqp.codec.performatives import Attach, Begin, Detach, Flow, Open, encode_ending
from sluicegate.protocols.amqp.codec.sections import find_sections
from sluicegate.protocols.amqp.codec.termini import Coordinator, Source, Target
from sluicegate.protocols.amqp.codec.transfers import (
    first_transfer,
    handle_bytes,
    next_transfer,
    read_transfer,
    transfer_lead,
)
from sluicegate.protocols.amqp.messages.decode import read_message
from sluicegate.protocols.amqp.messages.encode import header_section, write_message
from sluicegate.protocols.amqp.types.decoding import decode, skip
from sluicegate.protocols.amqp.types.encoding import encode
from sluicegate.protocols.amqp.types.errors import DecodeError
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Described, Scalar, Symbol
from support.amqp.golden import (
    BY_SYMBOL,
    COMPOSITES,
    cases,
    described,
    described_frame,
    golden,
    normalised_text,
    sections_text,
)

ERROR = AmqpError("amqp:not-found", "where?", AmqpMap([(Symbol("queue"), "q")]))
ERROR_TEXT = "error(condition=Symbol('amqp:not-found'), description='where?', info={Symbol('queue'): 'q'})"
FAILED = DeliveryState(outcomes.MODIFIED, delivery_failed=True, undeliverable_here=True)


def case(file: str) -> pytest.MarkDecorator:
    rows = [(bytes.fromhex(data), *texts) for _, _, data, *texts in cases(file)]
    names = [name for name, *_ in cases(file)]
    columns = "data, text" if len(rows[0]) == 2 else "data, text, normalised"
    return pytest.mark.parametrize(columns, rows, ids=names)


def in_symbols(value: AmqpValue) -> AmqpValue:
    """Return a value with the descriptors of all composites in their symbolic form."""
    if isinstance(value, Described):
        descriptor = value.descriptor
        if isinstance(descriptor, Scalar) and descriptor.value in COMPOSITES:
            assert isinstance(descriptor.value, int)
            descriptor = Symbol(COMPOSITES[descriptor.value].symbol)
        return Described(descriptor, in_symbols(value.value))
    if isinstance(value, list):
        return [in_symbols(item) for item in value]
    return value


@case("values.txt")
def test_a_value_is_read_for_what_it_is(data: bytes, text: str) -> None:
    """1.6: every type, in every encoding that the standard has for it."""
    value, end = decode(data, 0, len(data))
    assert (repr(value), end) == (text, len(data))
    assert skip(data, 0, len(data)) == len(data)
    again = encode(value)
    assert repr(decode(again, 0, len(again))[0]).replace("0xa3", "0xb3") == text.replace("0xa3", "0xb3")


@case("frames.txt")
def test_a_frame_says_what_it_says(data: bytes, text: str) -> None:
    """2.7, 5.3.3: performatives of clients that others wrote."""
    assert described_frame(data) == text


@pytest.mark.parametrize("name", [name for name in golden("frames.txt") if name != "heartbeat"])
def test_a_descriptor_may_be_a_symbol(name: str) -> None:
    """1.4: each composite has a symbolic descriptor besides its number, and both are the same to a reader."""
    data = golden("frames.txt")[name]
    value, stop = decode(data, 8, len(data))
    twin = frame(0, encode(in_symbols(value)) + data[stop:])
    assert described_frame(twin) == described_frame(data).replace("sasl:", "channel 0:").replace(
        "channel 1:", "channel 0:"
    ).replace("channel 7:", "channel 0:")


@case("messages.txt")
def test_a_message_is_understood_and_passed_on_as_it_is(data: bytes, text: str, normalised: str) -> None:
    """Case 81, 3.2: sections are found and normalised, and the bare message goes out byte for byte."""
    assert sections_text(data) == text
    assert normalised_text(data) == normalised
    message = read_message(data, 0)
    assert message.headers is not None
    sent = write_message(
        message.payload, message.headers, topic="t", durable=True, delivery_count=0, is_first=True, wall_ms=0
    )
    arrived, left = find_sections(sent), find_sections(data)
    assert sent[arrived.travels_at :] == data[left.travels_at :]


@pytest.mark.parametrize(
    ("sent", "passed_on"),
    [
        pytest.param(
            "00537045 005373d00000000a00000004404040a10173 005378d10000000b00000002a103782d665201005377a10166",
            "005373d00000000a00000004404040a10173 005377a10166 005378d10000000b00000002a103782d665201",
            id="rhea 3.0.5: footer, value",
        ),
        pytest.param(
            "00537045 00537345 005378d10000000b00000002a103782d665201 005375a00161 005375a00162",
            "00537345 005375a00161 005375a00162 005378d10000000b00000002a103782d665201",
            id="rhea 3.0.5: footer, data, data",
        ),
        pytest.param(
            "005373c00704404040a10173 005372c10d02a307782d6f70742d61a10162 005374c10702a1016ea10176 005377a1026869",
            "005372c10d02a307782d6f70742d61a10162 005373c00704404040a10173 005374c10702a1016ea10176 005377a1026869",
            id="amqp10 3.6.0: properties, message annotations",
        ),
    ],
)
def test_sections_that_a_client_does_not_keep_in_order_are_put_in_order(sent: str, passed_on: str) -> None:
    """3.2: sections have an order. Two clients for Node do not keep it, and are understood by other brokers."""
    message = read_message(bytes.fromhex(sent), 0)
    assert message.headers is not None
    out = write_message(
        message.payload, message.headers, topic="t", durable=True, delivery_count=0, is_first=True, wall_ms=0
    )
    assert out[find_sections(out).travels_at :] == bytes.fromhex(passed_on)


@pytest.mark.parametrize(
    ("sections", "text"),
    [
        pytest.param("005377a10166 00537345 005377a10166", "0x77 behind section 0x77", id="two values"),
        pytest.param("005375a00161 00537645 005375a00162", "0x76 behind section 0x75", id="mixed"),
        pytest.param("00537345 005372c10100 00537345", "0x73 behind section 0x73", id="properties twice"),
    ],
)
def test_sections_that_no_order_makes_a_message_of_are_refused(sections: str, text: str) -> None:
    """3.2: each section at most once, and a body of one kind."""
    with pytest.raises(DecodeError, match=text):
        read_message(bytes.fromhex(sections), 0)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (
            Open("c", hostname="h", max_frame_size=512, channel_max=9, idle_timeout_ms=7, offered=["o"], desired=["d"]),
            "open(container-id='c', hostname='h', max-frame-size=uint(512), channel-max=ushort(9), "
            "idle-time-out=uint(7), offered-capabilities=Symbol('o'), desired-capabilities=Symbol('d'))",
        ),
        (
            Begin(remote_channel=7, next_outgoing_id=1, incoming_window=2, outgoing_window=3, handle_max=4),
            "begin(remote-channel=ushort(7), next-outgoing-id=uint(1), incoming-window=uint(2), "
            "outgoing-window=uint(3), handle-max=uint(4))",
        ),
        (
            Flow(
                next_incoming_id=1,
                incoming_window=2,
                next_outgoing_id=3,
                outgoing_window=4,
                handle=5,
                delivery_count=6,
                link_credit=7,
                available=8,
                drain=True,
                echo=True,
            ),
            "flow(next-incoming-id=uint(1), incoming-window=uint(2), next-outgoing-id=uint(3), "
            "outgoing-window=uint(4), handle=uint(5), delivery-count=uint(6), link-credit=uint(7), "
            "available=uint(8), drain=True, echo=True)",
        ),
        (Detach(3, closed=True, error=ERROR), f"detach(handle=uint(3), closed=True, error={ERROR_TEXT})"),
        (
            Attach(
                "l",
                handle=1,
                is_receiver=True,
                source=Source("q", durable=1, expiry_policy="never", default_outcome=FAILED, outcomes=["a", "b"]),
                target=Target("t", capabilities=["queue"]),
                initial_delivery_count=0,
                max_message_size=9,
                offered=["x"],
            ),
            "attach(name='l', handle=uint(1), role=True, snd-settle-mode=ubyte(2), rcv-settle-mode=ubyte(0), "
            "source=source(address='q', durable=uint(1), expiry-policy=Symbol('never'), timeout=uint(0), "
            "dynamic=False, default-outcome=modified(delivery-failed=True, undeliverable-here=True), "
            "outcomes=array[Symbol('a'), Symbol('b')]), target=target(address='t', durable=uint(0), "
            "expiry-policy=Symbol('session-end'), timeout=uint(0), dynamic=False, capabilities=Symbol('queue')), "
            "initial-delivery-count=uint(0), max-message-size=ulong(9), offered-capabilities=Symbol('x'))",
        ),
        (
            Attach("l", handle=1, is_receiver=False, source=None, target=Coordinator(["amqp:local-transactions"])),
            "attach(name='l', handle=uint(1), role=False, snd-settle-mode=ubyte(2), rcv-settle-mode=ubyte(0), "
            "target=coordinator(capabilities=Symbol('amqp:local-transactions')))",
        ),
    ],
    ids=["open", "begin", "flow", "detach", "attach", "attach-coordinator"],
)
def test_written_frames_have_each_field_in_its_place(data: Open | Begin | Flow | Detach | Attach, text: str) -> None:
    """2.7: the table of fields is the specification's own."""
    assert described_frame(frame(0, data.encode())) == f"channel 0: {text}"


def test_endings_and_outcomes_have_each_field_in_its_place() -> None:
    """2.7.8, 2.7.9, 3.4, 4.5, 5.3.3."""
    written = {
        f"end(error={ERROR_TEXT})": encode_ending(performatives.END, ERROR),
        "close()": encode_ending(performatives.CLOSE, None),
        f"rejected(error={ERROR_TEXT})": DeliveryState(outcomes.REJECTED, error=ERROR).encode(),
        "modified(delivery-failed=True, undeliverable-here=True)": FAILED.encode(),
        "released()": outcomes.RELEASED_STATE.encode(),
        "declared(txn-id=b'x')": DeliveryState(outcomes.DECLARED, txn_id=b"x").encode(),
        "transactional-state(txn-id=b'x', outcome=accepted())": DeliveryState(
            outcomes.TRANSACTIONAL, txn_id=b"x", outcome=outcomes.ACCEPTED_STATE
        ).encode(),
        "sasl-mechanisms(sasl-server-mechanisms=array[Symbol('PLAIN')])": sasl_frames.mechanisms(["PLAIN"]),
        "sasl-challenge(challenge=b'c')": sasl_frames.challenge(b"c"),
        "sasl-outcome(code=ubyte(1))": sasl_frames.outcome(1),
        "header(durable=True, first-acquirer=True)": header_section(
            None, durable=True, delivery_count=0, is_first=True, wall_ms=0
        ),
        "header(delivery-count=uint(2))": header_section(
            None, durable=False, delivery_count=2, is_first=False, wall_ms=0
        ),
        "disposition(role=True, first=uint(1), last=uint(300), settled=True, state=accepted())": disposition_bytes(
            is_receiver=True, first=1, last=300, settled=True, state=outcomes.ACCEPTED_STATE
        ),
    }
    assert {described(decode(data, 0, len(data))[0]) for data in written.values()} == set(written)


@pytest.mark.parametrize("more", [False, True])
def test_a_transfer_has_each_field_in_its_place(more: bool) -> None:
    """2.7.5: the first transfer of a delivery, and the further ones."""
    handle = handle_bytes(300)
    head = first_transfer(transfer_lead(1), handle, 7, b"t", 0, settled=False, more=more, room=2)
    assert described_frame(head + b"ab") == (
        "channel 1: transfer(handle=uint(300), delivery-id=uint(7), delivery-tag=b't', message-format=uint(0), "
        f"settled=False, more={more}) payload 6162"
    )
    rest = next_transfer(transfer_lead(1), handle, more=more, room=2)
    assert described_frame(rest + b"cd") == f"channel 1: transfer(handle=uint(300), more={more}) payload 6364"


@pytest.mark.parametrize("code", [0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18])
def test_every_performative_we_write_has_all_its_fields(code: int) -> None:
    """Decision 0028: azure's pyamqp reads fields by their place, without asking how many there are."""
    written = {
        0x10: Open("c").encode(),
        0x11: Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1).encode(),
        0x12: Attach("l", handle=0, is_receiver=True, source=None, target=None).encode(),
        0x13: Flow(incoming_window=1, next_outgoing_id=0, outgoing_window=1).encode(),
        0x14: first_transfer(transfer_lead(0), handle_bytes(0), 0, b"t", 0, settled=True, more=False, room=0)[8:],
        0x15: disposition_bytes(is_receiver=True, first=0, last=0, settled=True, state=None),
        0x16: Detach(0, closed=False).encode(),
        0x17: encode_ending(0x17, None),
        0x18: encode_ending(0x18, None),
    }[code]
    value, _ = decode(written, 0, len(written))
    assert isinstance(value, Described)
    assert isinstance(value.value, list)
    assert len(value.value) == len(COMPOSITES[code].fields)


@pytest.mark.parametrize(
    ("code", "read"),
    [
        (0x10, lambda: performatives.read_open([])),
        (0x11, lambda: performatives.read_begin([])),
        (0x12, lambda: performatives.read_attach([])),
        (0x13, lambda: performatives.read_flow([])),
        (0x14, lambda: read_transfer(b"\x45", 0, 1)),
        (0x15, lambda: read_disposition(b"\x45", 0, 1)),
        (0x16, lambda: performatives.read_detach([])),
        (0x41, lambda: sasl_frames.read_init([])),
        (0x43, lambda: sasl_frames.read_response([])),
    ],
)
def test_a_mandatory_field_that_is_missing_is_named(code: int, read: Callable[[], object]) -> None:
    """1.4: a field that is mandatory has to be there."""
    mandatory = "|".join(field.name for field in COMPOSITES[code].fields if field.is_mandatory)
    with pytest.raises(DecodeError, match=f"mandatory field ({mandatory})$"):
        read()


def test_the_table_of_composites_is_whole() -> None:
    """1.4: the specification has 33 composite types, each with a number and a symbol of its own."""
    assert len(COMPOSITES) == len(BY_SYMBOL) == 33
