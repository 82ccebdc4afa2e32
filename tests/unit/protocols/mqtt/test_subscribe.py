"""SUBSCRIBE, UNSUBSCRIBE and their answers (mqtt section 12; T035, T099, T102)."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.protocols.mqtt.codec.events import SubscribeReceived, UnsubscribeReceived
from sluicegate.protocols.mqtt.codec.limits import MqttLimits
from sluicegate.protocols.mqtt.codec.reason_codes import LocalMisuse
from support.mqtt.conversation import connected, only

LEVELS = (3, 4, 5)


def asked(event: SubscribeReceived) -> list[tuple[str, int, bool, bool, int]]:
    """Return what each entry asks for: filter, QoS, No Local, Retain As Published, Retain Handling."""
    return [
        (each.filter_text, each.qos, each.no_local, each.retain_as_published, each.retain_handling)
        for each in event.requests
    ]


@pytest.mark.parametrize("level", LEVELS)
def test_filters_are_reported_in_order_with_their_qos(level: int) -> None:
    packet = mqtt.subscribe(("a/#", 0), ("b/+", 1), ("/", 2), packet_id=513, level=level)
    event = only(SubscribeReceived, connected(level).hears(packet))

    assert event.packet_id == 513
    assert event.subscription_identifier == 0
    assert asked(event) == [
        ("a/#", 0, False, False, 0),
        ("b/+", 1, False, False, 0),
        ("/", 2, False, False, 0),
    ]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("text", ["", "a#", "a/#/b", "ab/+e", "$share/g/a#"])
def test_a_malformed_filter_ends_the_connection_of_3_x_and_is_reported_in_5_0(level: int, text: str) -> None:
    """[311:4.7.1-2] [311:4.7.1-3] [311:4.7.3-1] [311:4.8.0-1]: 5.0 has a code for each filter of a packet."""
    for packet in (mqtt.subscribe(("a", 0), (text, 0), level=level), mqtt.unsubscribe("a", text, level=level)):
        conversation = connected(level)
        conversation.hears(packet)
        if level == 5:
            assert isinstance(conversation.events[-1], SubscribeReceived | UnsubscribeReceived)
        else:
            assert conversation.violation().reason_code == 0x8F
            assert conversation.violation().answer == b""


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("text", ["$queue/#q", "$queue/a+b", "$queue/", "$share//t", "$share/g", "$share/+/t"])
def test_extensions_do_not_end_the_connection_of_3_x(level: int, text: str) -> None:
    """To 3.x they are filters without a meaning of their own; names of queues have other characters."""
    assert isinstance(only(SubscribeReceived, connected(level).hears(mqtt.subscribe((text, 0), level=level))), object)


def test_options_and_identifier_of_5_0_are_read() -> None:
    options = mqtt.options(1, no_local=True, retain_as_published=True, retain_handling=2)
    properties = mqtt.subscription_identifier(268_435_455) + mqtt.user_property("k", "v")
    event = only(SubscribeReceived, connected(5).hears(mqtt.subscribe(("a", options), level=5, properties=properties)))

    assert event.subscription_identifier == 268_435_455
    assert asked(event) == [("a", 1, True, True, 2)]


@pytest.mark.parametrize(
    ("level", "options"), [(4, 0x04), (3, 0x08), *[(n, o) for n in LEVELS for o in (3, 0x40, 0x80, 0x30)]]
)
def test_reserved_or_impossible_options_end_the_connection(level: int, options: int) -> None:
    """T099 [3.8.3-5] [311:3.8.3-4]."""
    conversation = connected(level)
    conversation.hears(mqtt.subscribe(("a", options), level=level))

    assert conversation.violation().reason_code in (0x81, 0x82)


@pytest.mark.parametrize(
    ("packet", "reason_code"),
    [
        (mqtt.subscribe(level=5), 0x82),  # T099 [3.8.3-2]
        (mqtt.unsubscribe(level=5), 0x82),  # [3.10.3-2]
        (mqtt.subscribe(("a", 0), packet_id=0, level=5), 0x82),  # T035
        (mqtt.unsubscribe("a", packet_id=0, level=5), 0x82),
        (mqtt.subscribe(("a", 0), level=5, properties=mqtt.subscription_identifier(0)), 0x82),  # T102
        (mqtt.subscribe(("a", 0), level=5, properties=mqtt.subscription_identifier(1) * 2), 0x82),
        (mqtt.subscribe(("$share/g/a", 4), level=5), 0x82),  # [3.8.3-4]
        (mqtt.subscribe(("a\0", 0), level=5), 0x81),
        (mqtt.subscribe((b"\xff", 0), level=5), 0x81),
        (mqtt.unsubscribe(b"\xed\xa0\x80", level=5), 0x81),
        (mqtt.subscribe(("a", 0), level=5)[:-1].replace(b"\x82\x07", b"\x82\x06"), 0x81),  # options missing
        (mqtt.unsubscribe("a", level=5, properties=mqtt.subscription_identifier(1)), 0x81),
        (b"\x82\x01\0", 0x81),
        (b"\xa2\x00", 0x81),
        (b"\x82\x02\0\x01", 0x81),
    ],
)  # fmt: skip
def test_a_wrong_request_ends_the_connection(packet: bytes, reason_code: int) -> None:
    conversation = connected(5)
    conversation.hears(packet)

    assert conversation.violation().reason_code == reason_code


@pytest.mark.parametrize("level", [3, 4])
def test_3_x_requests_without_filters_end_the_connection(level: int) -> None:
    """T099."""
    for packet in (mqtt.subscribe(level=level), mqtt.unsubscribe(level=level)):
        conversation = connected(level)
        conversation.hears(packet)
        assert conversation.violation().answer == b""


@pytest.mark.parametrize("level", LEVELS)
def test_unsubscribe_lists_its_filters(level: int) -> None:
    event = only(UnsubscribeReceived, connected(level).hears(mqtt.unsubscribe("a", "$share/g/b", level=level)))

    assert event == UnsubscribeReceived(1, ["a", "$share/g/b"])


def test_the_number_of_filters_has_a_limit() -> None:
    conversation = connected(4, limits=MqttLimits(filters_per_packet_max=2))
    conversation.hears(mqtt.subscribe(("a", 0), ("b", 0)), mqtt.unsubscribe("a", "b", "c"))

    assert conversation.violation().reason_code == 0x97


@pytest.mark.parametrize(
    ("level", "codes", "expected"),
    [
        (5, [0, 1, 2, 0x87, 0x8F], b"\x90\x08\0\x07\0\0\x01\x02\x87\x8f"),
        (4, [0, 1, 2, 0x87, 0x8F], b"\x90\x07\0\x07\0\x01\x02\x80\x80"),
        (3, [0, 1, 2], b"\x90\x05\0\x07\0\x01\x02"),
    ],
)
def test_suback_has_the_codes_of_the_version(level: int, codes: list[int], expected: bytes) -> None:
    """Section 4: 3.1.1 knows one refusal."""
    conversation = connected(level)
    conversation.engine.suback(7, codes)

    assert conversation.said() == expected


@pytest.mark.parametrize(
    ("level", "expected"), [(5, b"\xb0\x05\0\x07\0\0\x11"), (4, b"\xb0\x02\0\x07"), (3, b"\xb0\x02\0\x07")]
)
def test_unsuback_has_codes_in_5_0_only(level: int, expected: bytes) -> None:
    """[3.11.3-1]."""
    conversation = connected(level)
    conversation.engine.unsuback(7, [0, 0x11])

    assert conversation.said() == expected


@pytest.mark.parametrize(("level", "codes"), [(3, [0x80]), (5, [3]), (5, [0x92]), (4, [0x11])])
def test_a_suback_that_must_not_be_sent_is_our_mistake(level: int, codes: list[int]) -> None:
    """[3.9.3-2]; a refusal does not exist in 3.1."""
    with pytest.raises(LocalMisuse):
        connected(level).engine.suback(1, codes)


@pytest.mark.parametrize("packet", [mqtt.subscribe(*[("a", 1)] * 12, level=5), mqtt.unsubscribe(*["a"] * 12, level=5)])
@pytest.mark.parametrize(("packet_bytes_max", "is_asked"), [(17, True), (16, False)])
def test_requests_that_could_not_be_answered_are_not_carried_out(
    packet: bytes, packet_bytes_max: int, is_asked: bool
) -> None:
    """[3.1.2-24]: SUBACK and UNSUBACK with twelve codes have 17 bytes, and no shorter form."""
    conversation = connected(5, properties=mqtt.maximum_packet_size(packet_bytes_max))
    conversation.hears(packet)

    if is_asked:
        assert isinstance(conversation.events[-1], (SubscribeReceived, UnsubscribeReceived))
    else:
        assert conversation.violation().reason_code == 0x95
        assert conversation.said() == b"\xe0\x01\x95"


def test_an_answer_that_fits_exactly_is_sent_without_its_reason() -> None:
    """[3.9.2-1]: 124 codes still have a Remaining Length of one byte, 125 do not."""
    conversation = connected(5, properties=mqtt.maximum_packet_size(129))
    conversation.hears(mqtt.subscribe(*[("a", 1)] * 124, level=5))
    conversation.engine.suback(1, [0x87] * 124, "no")
    assert len(conversation.said()) == 129

    conversation.hears(mqtt.subscribe(*[("a", 1)] * 125, level=5))
    assert conversation.violation().reason_code == 0x95
