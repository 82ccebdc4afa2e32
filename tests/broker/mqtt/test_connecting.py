"""CONNECT: which clients are accepted, which are refused, and with which code (section 3.1)."""

import pytest

import support.mqtt.packets as mqtt
from support.broker.running_broker import RunningBroker
from support.mqtt.packets import WillPart

EVERY_LEVEL = pytest.mark.parametrize("level", [3, 4, 5])


async def test_a_connection_that_begins_with_another_packet_is_closed_without_an_answer(broker: RunningBroker) -> None:
    """[3.1.0-1]."""
    client = await broker.open()
    client.send(mqtt.pingreq())
    await client.is_closed()


@pytest.mark.settings("mqtt.connect_timeout_s=200")
async def test_silence_before_connect_is_not_borne_for_long(broker: RunningBroker) -> None:
    """Section 3.1.4: the server SHOULD close when no CONNECT comes in reasonable time."""
    client = await broker.open()
    broker.forward(150)
    assert broker.node.mqtt.listeners["mqtt"].connection_count == 1
    broker.forward(60)
    await client.is_closed()


@EVERY_LEVEL
async def test_a_second_connect_ends_the_connection_and_the_will_is_published(
    broker: RunningBroker, level: int
) -> None:
    """[3.1.0-2]."""
    heir = await broker.connect("heir", level)
    await heir.subscribe("will/topic")
    client = await broker.connect("twice", level, will=WillPart())
    client.send(mqtt.connect("twice", level=level, will=WillPart()))
    await client.is_ended(0x82)
    assert (await heir.message()).payload == b"gone"


@pytest.mark.parametrize(("announced", "answered_in", "code"), [(3, 4, 1), (2, 4, 1), (6, 5, 0x84), (0x7F, 5, 0x84)])
async def test_an_unknown_protocol_level_is_named_so_in_the_nearest_form(
    broker: RunningBroker, announced: int, answered_in: int, code: int
) -> None:
    """[3.1.2-2] [311:3.1.2-2]."""
    client = await broker.open(answered_in)
    client.send(mqtt.connect(level=answered_in, protocol_level=announced))
    await client.is_refused(code)


async def test_an_unknown_protocol_name_is_closed(broker: RunningBroker) -> None:
    """[3.1.2-1]."""
    client = await broker.open()
    client.send(mqtt.connect(protocol_name=b"hj"))
    await client.is_closed()


@EVERY_LEVEL
@pytest.mark.parametrize(
    ("flags", "what"),
    [
        (0x03, "reserved flag"),
        (0x0A, "will QoS without will"),
        (0x22, "will retain without will"),
        (0x1E, "will QoS 3"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_impossible_flags_are_refused(broker: RunningBroker, level: int, flags: int, what: str) -> None:
    """[3.1.2-3] [3.1.2-11] [3.1.2-12] [3.1.2-13]."""
    client = await broker.open(level)
    will = WillPart(qos=0) if flags & 4 else None
    client.send(mqtt.connect(level=level, flags=flags, will=will))
    if level == 5:
        await client.is_refused(0x81)
    elif level == 3 and what == "reserved flag":  # 3.1 does not use it, and does not say what it has to be
        assert (await client.connack()).reason_code == 0
    else:
        await client.is_closed()


async def test_a_password_needs_a_user_name_before_version_5(broker: RunningBroker) -> None:
    """[311:3.1.2-22]; 5.0 dropped the rule."""
    client = await broker.open(4)
    client.send(mqtt.connect(password=b"secret"))
    await client.is_closed()
    assert (await (await broker.open(5)).connect("modern", password=b"secret")).reason_code == 0


@EVERY_LEVEL
async def test_a_byte_behind_the_last_field_is_refused(broker: RunningBroker, level: int) -> None:
    """[3.1.4-1]."""
    client = await broker.open(level)
    client.send(mqtt.connect(level=level, trailing=b"x"))
    if level == 5:
        await client.is_refused(0x81)
    else:
        await client.is_closed()


@pytest.mark.accounts(ada="engine")
@pytest.mark.parametrize(("level", "code"), [(3, 4), (4, 5), (5, 0x86)])
async def test_packets_behind_a_refused_connect_are_never_processed(
    broker: RunningBroker, level: int, code: int
) -> None:
    """[3.1.4-6]."""
    witness = await broker.connect("witness", user_name="ada", password=b"engine")
    await witness.subscribe("#")
    client = await broker.open(level)
    connect = mqtt.connect("intruder", level=level, user_name="ada", password=b"wrong")
    client.send(connect, mqtt.publish("secret", level=level))
    await client.is_refused(code)
    await witness.is_quiet()


@EVERY_LEVEL
async def test_a_connect_that_a_packet_behind_it_refuses_changes_nothing(broker: RunningBroker, level: int) -> None:
    """[3.1.4-6]: whoever has the name keeps it, nothing is published, and there is no will."""
    witness = await broker.connect("witness")
    await witness.subscribe("#")
    holder = await broker.connect("name", level)
    client = await broker.open(level)
    connect = mqtt.connect("name", level=level, will=mqtt.WillPart())
    client.send(connect, mqtt.publish("secret", level=level), b"\xc1\0")
    if level == 5:
        await client.is_refused(0x81)
    else:
        await client.is_closed()
    await holder.round_trip()
    await witness.is_quiet()


async def test_a_client_whose_maximum_packet_size_is_below_its_connack_has_no_will(broker: RunningBroker) -> None:
    """[3.1.2-24]: its CONNECT was not accepted, for it could not be told so; its session goes back to the directory."""
    witness = await broker.connect("witness")
    await witness.subscribe("#")
    client = await broker.open(5)
    client.send(mqtt.connect("small", level=5, will=mqtt.WillPart(), properties=mqtt.maximum_packet_size(10)))
    await client.is_closed()
    await witness.is_quiet()
    assert not (await (await broker.open(5)).connect("small", clean_start=False)).session_present


@EVERY_LEVEL
@pytest.mark.parametrize("client_id", [b"a\x00b", b"a\xc0\x80b", b"a\xed\xa0\x80b"])
async def test_a_client_id_has_to_be_well_formed_text(broker: RunningBroker, level: int, client_id: bytes) -> None:
    """[1.5.4-1] [1.5.4-2]."""
    client = await broker.open(level)
    client.send(mqtt.connect(client_id, level=level))
    if level == 5:
        await client.is_refused(0x81)
    else:
        await client.is_closed()


@EVERY_LEVEL
async def test_client_ids_may_be_longer_than_the_standard_has_to_allow(broker: RunningBroker, level: int) -> None:
    """[3.1.3-5]: 23 characters MUST be allowed, more MAY."""
    for length in (23, 200):
        assert (await (await broker.open(level)).connect("a" * length)).reason_code == 0


@pytest.mark.settings("mqtt.strict_client_id_3_1=true")
async def test_3_1_may_be_held_to_its_23_characters(broker: RunningBroker) -> None:
    """3.1, section 3.1: longer identifiers get code 2."""
    assert (await (await broker.open(3)).connect("a" * 23)).reason_code == 0
    client = await broker.open(3)
    client.send(mqtt.connect("a" * 24, level=3))
    await client.is_refused(2)


async def test_a_3_1_1_client_without_id_has_to_ask_for_a_clean_session(broker: RunningBroker) -> None:
    """[311:3.1.3-7] [311:3.1.3-8]."""
    assert (await (await broker.open(4)).connect("", clean_start=True)).reason_code == 0
    client = await broker.open(4)
    client.send(mqtt.connect("", clean_start=False))
    await client.is_refused(2)


async def test_a_3_1_client_needs_an_id(broker: RunningBroker) -> None:
    """3.1, section 3.1: code 2."""
    client = await broker.open(3)
    client.send(mqtt.connect("", level=3))
    await client.is_refused(2)


async def test_a_5_0_client_without_id_is_given_one_to_come_back_with(broker: RunningBroker) -> None:
    """[3.1.3-6] [3.2.2-16]."""
    names: list[str] = []
    for _ in range(2):
        client = await broker.open(5)
        answer = await client.connect("", properties=mqtt.session_expiry(60))
        name = answer.value(18)
        assert isinstance(name, str)
        names.append(name)
        await client.leave()
    assert names[0] != names[1]
    again = await broker.open(5)
    assert (await again.connect(names[0], clean_start=False)).session_present
    assert again.accepted.value(18) is None


async def test_a_client_with_an_id_is_assigned_none(broker: RunningBroker) -> None:
    """[3.2.2-16]."""
    assert (await broker.connect("named", 5)).accepted.value(18) is None


async def test_a_3_1_connect_may_leave_out_fields_that_its_flags_announce(broker: RunningBroker) -> None:
    """3.1, section 3.1: the remaining length is stronger than the user name and password flags."""
    client = await broker.open(3)
    assert (await client.connect("old", flags=0xC2)).reason_code == 0


@pytest.mark.parametrize(
    "properties",
    [
        mqtt.receive_maximum(0),
        mqtt.maximum_packet_size(0),
        mqtt.request_problem_information(2),
        mqtt.session_expiry(1) + mqtt.session_expiry(1),
        mqtt.authentication_data(b"proof"),
    ],
    ids=["receive maximum 0", "packet size 0", "problem information 2", "expiry twice", "data without method"],
)
async def test_impossible_values_of_properties_are_protocol_errors(broker: RunningBroker, properties: bytes) -> None:
    """Section 3.1.2.11, each property's own paragraph."""
    client = await broker.open(5)
    client.send(mqtt.connect(level=5, properties=properties))
    await client.is_refused(0x82)


@pytest.mark.parametrize("properties", [mqtt.topic_alias(3), mqtt.byte_property(0x7F, 1)], ids=["misplaced", "unknown"])
async def test_properties_that_do_not_belong_there_are_malformed(broker: RunningBroker, properties: bytes) -> None:
    """Section 2.2.2.2."""
    client = await broker.open(5)
    client.send(mqtt.connect(level=5, properties=properties))
    await client.is_refused(0x81)


async def test_an_unknown_authentication_method_is_refused(broker: RunningBroker) -> None:
    """[4.12.0-1]."""
    client = await broker.open(5)
    client.send(mqtt.connect(level=5, properties=mqtt.authentication_method("nope")))
    await client.is_refused(0x8C)


@EVERY_LEVEL
@pytest.mark.parametrize("topic", ["a/#", "", "a/+/b"])
async def test_a_will_topic_has_to_be_a_topic_name(broker: RunningBroker, level: int, topic: str) -> None:
    """[3.1.2-9] and section 4.7.1: no wildcards, at least one character."""
    client = await broker.open(level)
    client.send(mqtt.connect(level=level, will=WillPart(topic)))
    if level < 5:
        await client.is_closed()
        return
    assert (await client.connack()).reason_code in (0x81, 0x82, 0x90)
    await client.is_closed()


async def test_a_connect_with_thousands_of_user_properties_is_answered(broker: RunningBroker) -> None:
    """T122. Section 3.1.2.11.8 sets no number; what takes long here would hold up everybody."""
    client = await broker.open(5)
    properties = b"".join([mqtt.user_property(f"name-{number}", "value") for number in range(5000)])
    client.send(mqtt.connect("talker", level=5, properties=properties))
    assert (await client.connack()).reason_code == 0x97
    await client.is_closed()
