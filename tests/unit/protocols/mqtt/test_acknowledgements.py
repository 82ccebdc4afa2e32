"""PUBACK, PUBREC, PUBREL and PUBCOMP as runs, in both directions (mqtt sections 2, 4, 9.2; T034)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import support.mqtt.packets as mqtt
from sluicegate.protocols.mqtt.codec.events import AcknowledgementReceived, MqttEvent
from sluicegate.protocols.mqtt.codec.reason_codes import LocalMisuse
from support.mqtt.conversation import connected

KINDS = (mqtt.PUBACK, mqtt.PUBREC, mqtt.PUBREL, mqtt.PUBCOMP)

Run = tuple[int, int, int, int]


def runs_of(events: list[MqttEvent]) -> list[Run]:
    assert all(isinstance(event, AcknowledgementReceived) for event in events), events
    return [
        (event.kind, event.first, event.last, event.reason_code)
        for event in events
        if isinstance(event, AcknowledgementReceived)
    ]


def plain_runs(packets: list[tuple[int, int, int]]) -> list[Run]:
    """The model: extend a run while kind and code stay and the id is the next one."""
    runs: list[Run] = []
    for kind, packet_id, code in packets:
        if runs and runs[-1][0] == kind and runs[-1][2] + 1 == packet_id and runs[-1][3] == code:
            runs[-1] = (kind, runs[-1][1], packet_id, code)
        else:
            runs.append((kind, packet_id, packet_id, code))
    return runs


@pytest.mark.parametrize("level", [3, 4, 5])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 2, 3, 8, 9, 41, 65535])
def test_ascending_ids_are_one_run(level: int, kind: int, count: int) -> None:
    data = b"".join([mqtt.acknowledgement(kind, packet_id) for packet_id in range(1, count + 1)])

    assert runs_of(connected(level).hears(data)) == [(kind, 1, count, 0)]


def test_a_run_does_not_go_on_from_65535_to_1() -> None:
    assert runs_of(connected().hears(mqtt.puback(65535), mqtt.puback(1))) == [(4, 65535, 65535, 0), (4, 1, 1, 0)]


def test_an_acknowledgement_waits_for_its_reason_code() -> None:
    """What is there of it has the length of one that has none."""
    conversation = connected(5)

    assert conversation.hears(b"\x40\x03\x00\x05") == []
    assert runs_of(conversation.hears(b"\x87")) == [(mqtt.PUBACK, 5, 5, 0x87)]


segments = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.integers(1, 65000),
        st.integers(1, 300),
        st.sampled_from([None, 0, 0x92]),
        st.booleans(),
    ),
    max_size=8,
)


@given(segments)
def test_acknowledgements_agree_with_the_plain_model(parts: list[tuple[int, int, int, int | None, bool]]) -> None:
    """Goal: no run is cut or joined wrongly. Method: mix runs, gaps, forms and kinds; compare packet by packet."""
    said: list[tuple[int, int, int]] = []
    data = b""
    for kind, first, count, code, long in parts:
        if code == 0x92 and kind in (mqtt.PUBACK, mqtt.PUBREC):
            code = 0x87
        for packet_id in range(first, first + count):
            said.append((kind, packet_id, code or 0))
            data += mqtt.acknowledgement(kind, packet_id, code, b"" if long else None)

    assert runs_of(connected(5).hears(data)) == plain_runs(said)


def test_short_and_long_forms_with_equal_code_are_one_run() -> None:
    """Section 2: the three forms of 5.0."""
    data = mqtt.puback(1) + mqtt.puback(2, 0) + mqtt.acknowledgement(4, 3, 0, b"") + mqtt.puback(4)

    assert runs_of(connected(5).hears(data)) == [(4, 1, 4, 0)]


def test_a_reason_code_is_reported_and_properties_are_passed_over() -> None:
    properties = mqtt.reason_string("no") + mqtt.user_property("k", "v")
    data = mqtt.acknowledgement(mqtt.PUBREC, 7, 0x87, properties) + mqtt.pubrec(8, 0x87) + mqtt.pubrec(9)

    assert runs_of(connected(5).hears(data)) == [(5, 7, 8, 0x87), (5, 9, 9, 0)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("level", [3, 4])
def test_an_acknowledgement_of_3_x_has_two_bytes(kind: int, level: int) -> None:
    """T034; decided on the length byte."""
    for length in (0, 1, 3, 4):
        conversation = connected(level)
        conversation.hears(bytes([mqtt.acknowledgement(kind, 1)[0], length]))
        assert conversation.violation().reason_code == 0x81


@pytest.mark.parametrize(
    ("packet", "reason_code"),
    [
        (mqtt.puback(0), 0x82),
        (b"\x40\x00", 0x81),
        (b"\x40\x01\x00", 0x81),
        (mqtt.puback(1, 0x92), 0x81),  # not a code of PUBACK [3.4.2-1]
        (mqtt.pubrel(1, 0x80), 0x81),
        (mqtt.pubcomp(1, 0x10), 0x81),
        (mqtt.acknowledgement(4, 1, 0, mqtt.reason_string("a") * 2), 0x82),
        (mqtt.acknowledgement(4, 1, 0, mqtt.session_expiry(1)), 0x81),
        (b"\x40\x05\0\x01\0\0\0", 0x81),  # a byte behind the properties
        (b"\x40\x04\0\x01\0\x01", 0x81),
        (b"\x40\x82\0\0\x01", 0x81),  # a length in two bytes
    ],
)
def test_a_wrong_acknowledgement_of_5_0_ends_the_connection(packet: bytes, reason_code: int) -> None:
    conversation = connected(5)
    conversation.hears(mqtt.puback(9), packet)

    assert runs_of(conversation.events[:1]) == [(4, 9, 9, 0)]
    assert conversation.violation().reason_code == reason_code


@pytest.mark.parametrize("level", [3, 4, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_written_as_its_packets(level: int, kind: int) -> None:
    conversation = connected(level)
    conversation.engine.acknowledge(kind, 255, 258)

    assert conversation.said() == b"".join([mqtt.acknowledgement(kind, packet_id) for packet_id in range(255, 259)])


def test_the_last_id_has_a_packet_too() -> None:
    conversation = connected()
    conversation.engine.acknowledge(mqtt.PUBACK, 65535, 65535)

    assert conversation.said() == mqtt.puback(65535)


def test_a_reason_code_is_written_to_5_0_and_left_out_in_3_x() -> None:
    five, three = connected(5), connected(4)
    five.engine.acknowledge(mqtt.PUBREC, 1, 2, 0x97)
    three.engine.acknowledge(mqtt.PUBREC, 1, 2, 0x97)

    assert five.said() == mqtt.pubrec(1, 0x97) + mqtt.pubrec(2, 0x97)
    assert three.said() == mqtt.pubrec(1) + mqtt.pubrec(2)


@pytest.mark.parametrize(("first", "last", "code"), [(0, 1, 0), (2, 1, 0), (1, 65536, 0), (1, 1, 0x92)])
def test_an_acknowledgement_that_must_not_be_sent_is_our_mistake(first: int, last: int, code: int) -> None:
    with pytest.raises(LocalMisuse):
        connected(5).engine.acknowledge(mqtt.PUBACK, first, last, code)
