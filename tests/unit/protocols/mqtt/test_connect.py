"""Reading CONNECT in the three versions, and refusing what is none (mqtt sections 5 and 6; T004 to T026)."""

import pytest

import support.mqtt.packets as mqtt
from sluicegate.protocols.mqtt.codec.events import ConnectReceived, PeerViolated
from sluicegate.protocols.mqtt.codec.limits import MqttLimits
from sluicegate.protocols.mqtt.codec.reason_codes import QUOTA_EXCEEDED
from support.mqtt.conversation import WALL_MS, Conversation, only

LEVELS = (3, 4, 5)


@pytest.mark.parametrize("level", LEVELS)
def test_a_plain_connect_is_read_with_the_defaults_of_its_version(level: int) -> None:
    """[3.1.2]: what is not said has a default; in 3.x the session lasts as its flag says."""
    event = only(ConnectReceived, Conversation().hears(mqtt.connect("c1", level=level, keep_alive_s=30)))

    assert (event.level, event.client_id, event.clean_start, event.keep_alive_s) == (level, "c1", True, 30)
    assert (event.user_name, event.password, event.will) == (None, None, None)
    assert (event.session_expiry_s, event.receive_maximum, event.maximum_packet_size) == (0, 65535, 0)
    assert (event.topic_alias_maximum, event.request_problem_information) == (0, True)
    assert not event.request_response_information
    assert event.authentication_method is None


def test_a_3x_session_that_is_not_clean_never_expires() -> None:
    """Section 7: clean session 0 is session expiry 0xFFFFFFFF."""
    event = only(ConnectReceived, Conversation().hears(mqtt.connect(clean_start=False)))

    assert event.session_expiry_s == 0xFFFF_FFFF


def test_all_properties_of_connect_are_read() -> None:
    """Section 3: 17, 21, 22, 23, 25, 33, 34, 38, 39."""
    properties = (
        mqtt.session_expiry(60) + mqtt.receive_maximum(7) + mqtt.maximum_packet_size(500) + mqtt.topic_alias_maximum(3)
        + mqtt.request_problem_information(0) + mqtt.request_response_information(1) + mqtt.user_property("k", "1")
        + mqtt.authentication_method("M") + mqtt.authentication_data(b"\0d") + mqtt.user_property("k", "2")
    )  # fmt: skip
    event = only(ConnectReceived, Conversation().hears(mqtt.connect(level=5, properties=properties)))

    assert (event.session_expiry_s, event.receive_maximum, event.maximum_packet_size) == (60, 7, 500)
    assert (event.topic_alias_maximum, event.request_problem_information) == (3, False)
    assert event.request_response_information
    assert (event.authentication_method, event.authentication_data) == ("M", b"\0d")
    assert event.user_properties == [("k", "1"), ("k", "2")]


@pytest.mark.parametrize("level", LEVELS)
def test_user_name_password_and_will_are_read_in_their_order(level: int) -> None:
    """[3.1.3-1]: will topic, will payload, user name, password."""
    will = mqtt.WillPart("w/t", b"", qos=2, retain=True)
    event = only(
        ConnectReceived, Conversation().hears(mqtt.connect(level=level, will=will, user_name="u", password=b"\0p"))
    )

    assert (event.user_name, event.password) == ("u", b"\0p")
    assert event.will is not None
    assert (event.will.topic, event.will.payload, event.will.qos, event.will.retain) == ("w/t", b"", 2, True)
    assert event.will.headers(WALL_MS) is None


def test_will_properties_become_headers_when_the_will_is_published() -> None:
    """Section 8: the delay is the session's matter, the expiry counts from publishing on (3.1.3.2.4)."""
    properties = mqtt.will_delay(5) + mqtt.content_type("text/plain") + mqtt.message_expiry(60)
    event = only(
        ConnectReceived, Conversation().hears(mqtt.connect(level=5, will=mqtt.WillPart(properties=properties)))
    )

    assert event.will is not None
    assert event.will.delay_s == 5
    headers = event.will.headers(WALL_MS)
    assert headers is not None
    assert (headers.content_type, headers.expires_at_ms) == ("text/plain", WALL_MS + 60_000)
    assert headers.native == mqtt.content_type("text/plain")  # neither delay nor expiry travels as it came


def test_5_0_allows_a_password_without_user_name() -> None:
    """T009 [311:3.1.2-22]: 3.x does not."""
    event = only(ConnectReceived, Conversation().hears(mqtt.connect(level=5, password=b"secret")))

    assert (event.user_name, event.password) == (None, b"secret")


def test_3_1_takes_a_missing_user_name_for_none() -> None:
    """T020: in 3.1 the remaining length is stronger than the flags."""
    event = only(ConnectReceived, Conversation().hears(mqtt.connect(level=3, flags=0xC2)))

    assert (event.user_name, event.password) == (None, None)


@pytest.mark.parametrize(
    ("level", "client_id", "clean_start", "answer"),
    [
        (3, "", True, b"\x20\x02\x00\x02"),  # T019
        (4, "", False, b"\x20\x02\x00\x02"),  # T017 [311:3.1.3-8]
    ],
)
def test_an_empty_client_id_is_refused_where_the_version_has_none(
    level: int, client_id: str, clean_start: bool, answer: bytes
) -> None:
    conversation = Conversation()
    events = conversation.hears(mqtt.connect(client_id, level=level, clean_start=clean_start))

    assert only(PeerViolated, events).answer == answer
    assert conversation.said() == answer


@pytest.mark.parametrize(("level", "clean_start"), [(4, True), (5, True), (5, False)])
def test_an_empty_client_id_is_reported_where_the_server_may_assign_one(level: int, clean_start: bool) -> None:
    """T017, T018 [3.1.3-6]."""
    event = only(ConnectReceived, Conversation().hears(mqtt.connect("", level=level, clean_start=clean_start)))

    assert event.client_id == ""


@pytest.mark.parametrize(("level", "code"), [(3, 2), (4, 2), (5, 0x85)])
def test_a_client_id_has_so_many_bytes_at_most(level: int, code: int) -> None:
    """[3.1.3-5]: a server may take more than 23. It is in the key of each row of a session."""
    limits = MqttLimits(client_id_bytes_max=30)
    for longest in ("x" * 30, "\u00e9" * 15):
        assert only(ConnectReceived, Conversation(limits=limits).hears(mqtt.connect(longest, level=level)))
    for too_long in ("x" * 31, "\u00e9" * 16):
        violation = only(PeerViolated, Conversation(limits=limits).hears(mqtt.connect(too_long, level=level)))
        assert violation.answer[0] == mqtt.CONNACK << 4
        assert violation.answer[3] == code


def test_long_client_ids_are_refused_in_3_1_only_when_configured() -> None:
    """T016."""
    strict = MqttLimits(level3_client_id_chars_max=23)
    long = mqtt.connect("x" * 200, level=3)

    assert only(ConnectReceived, Conversation().hears(long)).client_id == "x" * 200
    assert only(PeerViolated, Conversation(limits=strict).hears(long)).answer == b"\x20\x02\x00\x02"
    assert only(ConnectReceived, Conversation(limits=strict).hears(mqtt.connect("x" * 23, level=3)))


@pytest.mark.parametrize("protocol_level", [0, 1, 3, 0x83, 0x84])
def test_an_old_or_bridge_level_is_refused_in_the_form_of_3_1_1(protocol_level: int) -> None:
    """T004 [311:3.1.2-2]; a bridge falls back when it reads code 1."""
    conversation = Conversation()
    conversation.hears(mqtt.connect(protocol_level=protocol_level))

    assert conversation.violation().reason_code == 0x84
    assert conversation.said() == b"\x20\x02\x00\x01"


@pytest.mark.parametrize("protocol_level", [6, 0x7F])
def test_a_newer_level_is_refused_in_the_form_of_5_0(protocol_level: int) -> None:
    """T004 [3.1.2-2]."""
    conversation = Conversation()
    conversation.hears(mqtt.connect(level=5, protocol_level=protocol_level))

    assert mqtt.connack(conversation.packets()[0], 5).reason_code == 0x84


@pytest.mark.parametrize("name", [b"hj", b"", b"MQTt", b"mqtt", b"MQIsdq", b"\xff\xff"])
def test_an_unknown_protocol_name_is_answered_by_nothing(name: bytes) -> None:
    """T005 [3.1.2-1]."""
    conversation = Conversation()
    conversation.hears(mqtt.connect(protocol_name=name))

    assert conversation.violation().reason_code == 0x84
    assert conversation.said() == b""


UNUSED = "reserved flag (T006)"
FLAWS = {
    UNUSED: {"flags": 0x03},
    "will QoS without will (T007)": {"flags": 0x0A},
    "will retain without will (T007)": {"flags": 0x22},
    "will QoS 3 (T008)": {"flags": 0x1E},
    "trailing byte (T010)": {"trailing": b"\0"},
    "user name flag without field": {"flags": 0x82, "trailing": b"\0"},
    "client id with U+0000 (T015)": {"client_id": b"a\0"},
    "client id with C0 80 (T015)": {"client_id": b"\xc0\x80"},
    "client id with a surrogate (T015)": {"client_id": b"\xed\xa0\x80"},
    "will topic with wildcard (T026)": {"will": mqtt.WillPart("a/#")},
    "empty will topic (T026)": {"will": mqtt.WillPart("")},
}


def test_3_1_ignores_the_flag_that_it_does_not_use() -> None:
    """[311:3.1.2-3] reserves it; 3.1 says that it is not used."""
    event = only(ConnectReceived, Conversation().hears(mqtt.connect(level=3, flags=0x03)))

    assert (event.client_id, event.clean_start) == ("client", True)


@pytest.mark.parametrize(("level", "flaw"), [(n, flaw) for flaw in FLAWS for n in LEVELS if (n, flaw) != (3, UNUSED)])
def test_a_flawed_connect_ends_the_connection(level: int, flaw: str) -> None:
    """[3.1.4-1]: 3.x sends no CONNACK, 5.0 says why."""
    conversation = Conversation()
    conversation.hears(mqtt.connect(level=level, **FLAWS[flaw]))  # type: ignore[arg-type]  # a table of arguments

    assert len(conversation.events) == 1
    assert conversation.violation().reason_code in (0x81, 0x90)
    if level == 5:
        assert mqtt.connack(conversation.packets()[0], 5).reason_code == conversation.violation().reason_code
    else:
        assert conversation.said() == b""


@pytest.mark.parametrize("level", [3, 4])
def test_3_x_refuses_a_password_without_user_name(level: int) -> None:
    """T009 [311:3.1.2-22]."""
    conversation = Conversation()
    conversation.hears(mqtt.connect(level=level, password=b"x"))

    assert conversation.violation().reason_code == 0x81
    assert conversation.said() == b""


@pytest.mark.parametrize(
    ("properties", "reason_code"),
    [
        (mqtt.receive_maximum(0), 0x82),  # T021
        (mqtt.maximum_packet_size(0), 0x82),
        (mqtt.request_problem_information(2), 0x82),
        (mqtt.request_response_information(2), 0x82),
        (mqtt.session_expiry(1) * 2, 0x82),
        (mqtt.authentication_method("M") * 2, 0x82),
        (mqtt.topic_alias(1), 0x81),  # T022
        (b"\x7f\0", 0x81),
        (mqtt.will_delay(1), 0x81),
        (mqtt.content_type("x"), 0x81),
        (mqtt.authentication_data(b"x"), 0x82),  # T023
        (b"\x11\0\0", 0x81),  # a value that runs past its section
        (b"\x15\0\x05M", 0x81),
    ],
)
def test_a_wrong_property_of_connect_is_refused(properties: bytes, reason_code: int) -> None:
    """T021 to T023, section 3."""
    conversation = Conversation()
    conversation.hears(mqtt.connect(level=5, properties=properties))

    assert conversation.violation().reason_code == reason_code
    assert mqtt.connack(conversation.packets()[0], 5).reason_code == reason_code


@pytest.mark.parametrize("properties", [mqtt.session_expiry(1), mqtt.topic_alias(1), mqtt.payload_format(2)])
def test_a_wrong_will_property_is_refused(properties: bytes) -> None:
    """Section 3: will properties are not those of CONNECT."""
    conversation = Conversation()
    conversation.hears(mqtt.connect(level=5, will=mqtt.WillPart(properties=properties)))

    assert conversation.violation().reason_code in (0x81, 0x82)


def test_a_property_length_in_more_bytes_than_needed_is_malformed() -> None:
    """[1.5.5-1]."""
    good = mqtt.connect("c", level=5)
    at = good.index(b"\0\0\0\x01c")  # keep alive, property length, client id
    body = good[2:at] + b"\0\0\x80\0\0\x01c"
    conversation = Conversation()
    conversation.hears(mqtt.packet(0x10, body))

    assert conversation.violation().reason_code == 0x81


def test_control_characters_are_refused_when_configured() -> None:
    """Section 1: U+0001 to U+001F, U+007F to U+009F and non-characters MAY be refused."""
    strict = MqttLimits(refuse_control_characters=True)
    for text in ("a\x01", "a\x7f", "a\x9f", "a\ufffe", "a\U0001ffff"):
        assert only(ConnectReceived, Conversation().hears(mqtt.connect(text))).client_id == text
        assert only(PeerViolated, Conversation(limits=strict).hears(mqtt.connect(text)))
    for text in ("a b", "é", "\ufeffa", "\u3000", "\U0001f600"):
        assert only(ConnectReceived, Conversation(limits=strict).hears(mqtt.connect(text))).client_id == text


def test_a_thousand_user_properties_are_read_and_five_thousand_refused() -> None:
    """T122."""
    many = b"".join(mqtt.user_property(f"k{number}", "v") for number in range(1000))
    event = only(ConnectReceived, Conversation().hears(mqtt.connect(level=5, properties=many)))
    refused = only(PeerViolated, Conversation().hears(mqtt.connect(level=5, properties=many * 5)))

    assert len(event.user_properties) == 1000
    assert refused.reason_code == QUOTA_EXCEEDED
