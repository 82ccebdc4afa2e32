"""Traces: what a client and the broker say to each other, as operators follow it."""

from collections.abc import AsyncIterator
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

import support.mqtt.packets as mqtt
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.operations.traces.amqp_frames import AmqpFrames
from sluicegate.gateway.operations.traces.flow_frames import FlowFrames
from sluicegate.gateway.operations.traces.followed.connection import traced_packet
from sluicegate.gateway.operations.traces.mqtt_packets import PacketCutter, PacketReader
from sluicegate.gateway.operations.traces.traces import UNREAD_MAX
from sluicegate.gateway.operations.traces.words import BODY_BYTES_MAX, CUT, ENTRIES_MAX, TEXT_CHARS_MAX, PacketWords
from sluicegate.gateway.views.clients.traces import TracedPacket
from sluicegate.gateway.views.errors import ClientNotFound
from sluicegate.messaging.message.headers import Headers, UserPropertyValue
from sluicegate.protocols.amqp.codec.delivery_states import ACCEPTED, rejected
from sluicegate.protocols.amqp.codec.frames import HEARTBEAT, frame, sasl_frame
from sluicegate.protocols.amqp.codec.performatives import ATTACH, FLOW, INIT, RESPONSE, TRANSFER, Detach, Open
from sluicegate.protocols.amqp.types.encoding import encode, encode_composite
from sluicegate.protocols.amqp.types.values import AmqpMap, AmqpValue, Described, Symbol, uint, ulong
from sluicegate.protocols.flow.codec.fields import CODE, CURSOR_EPOCH, INCARNATION, PARTITION_IDS
from sluicegate.protocols.flow.codec.frame import CURSOR_STATUS, NAMES, encode_frame
from sluicegate.protocols.flow.codec.frames.publish import write_publish
from sluicegate.protocols.flow.codec.frames.session import Auth, AuthAnswer
from sluicegate.protocols.flow.codec.frames.settle import Ping
from support.amqp.client import AmqpClients, body
from support.amqp.golden import golden
from support.broker.inside_client import until
from support.broker.named_queues import create
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient
from support.flow.golden import body_of, compressed, compressed_frames, golden_frames

PACKET: Final = TypeAdapter(TracedPacket)


async def following(broker: RunningBroker, name: str, payload_bytes: int = 0) -> AsyncIterator[TracedPacket]:
    """Return a trace that has begun: its first packet is the beginning of the connection."""
    trace = await NodeOperations(broker.node).trace_client(name, payload_bytes)
    first = await anext(trace)
    assert (first.direction, first.kind) == ("connection", "begun")
    return trace


async def packets(trace: AsyncIterator[TracedPacket], count: int) -> list[TracedPacket]:
    return [await anext(trace) for _ in range(count)]


async def test_packets_of_both_directions_come_with_reason_codes_and_properties(broker: RunningBroker) -> None:
    client = await broker.connect("lamp", 5)
    trace = await following(broker, "lamp")
    await client.subscribe(("cmd/+", mqtt.options(1, no_local=True)), properties=mqtt.varint_property(11, 9))
    await client.publish("$SYS/forged", b"secret payload", properties=mqtt.u32_property(2, 60))

    subscribe, suback, publish, puback = await packets(trace, 4)

    assert (subscribe.direction, subscribe.kind) == ("received", "SUBSCRIBE")
    assert subscribe.fields == {"packet_id": 1, "filter_1": "cmd/+", "qos_1": 1, "options_1": "no local"}
    assert subscribe.properties == (("Subscription Identifier", 9),)
    assert (suback.direction, suback.kind, suback.fields["reason_codes"]) == ("sent", "SUBACK", "QoS 1")
    assert (publish.kind, publish.fields["topic"], publish.fields["qos"]) == ("PUBLISH", "$SYS/forged", 1)
    assert (publish.properties, publish.payload) == ((("Message Expiry Interval", 60),), None)
    assert (puback.reason_code, puback.reason) == (0x87, "not authorized")
    await trace.aclose()  # type: ignore[attr-defined]  # it is a generator


async def test_payloads_are_cut_and_only_shown_where_asked_for(broker: RunningBroker) -> None:
    client = await broker.connect("lamp")
    trace = await following(broker, "lamp", 4)
    await client.publish("a", b"0123456789")
    await client.publish("a", b"\xff\xfe\xfd")
    first, _, second, _ = await packets(trace, 4)
    assert (first.payload, first.payload_encoding) == ("0123", "text")
    assert (second.payload, second.payload_encoding) == ("//79", "base64")


async def test_a_large_packet_is_shown_with_its_size_and_arrives_whole(broker: RunningBroker) -> None:
    client = await broker.connect("lamp")
    await client.subscribe("a")
    trace = await following(broker, "lamp")
    payload = bytes(1_000_000)
    await client.publish("a", payload)
    assert (await client.messages(1))[0].payload == payload
    found = [(each.direction, each.kind, each.size_bytes) for each in await packets(trace, 3)]
    assert ("received", "PUBLISH", 1_000_009) in found
    assert ("sent", "PUBLISH", 1_000_007) in found


async def test_a_trace_that_begins_within_a_packet_shows_the_next_one(broker: RunningBroker) -> None:
    client = await broker.connect("lamp")
    whole = mqtt.publish("a", b"x" * 50, qos=1, packet_id=7)
    connection = broker.node.mqtt.open_connections()[0]
    client.send(whole[:10])
    await until(connection.is_within_packet, "the beginning of a packet")
    trace = await following(broker, "lamp")
    client.send(whole[10:])
    assert await client.answered(mqtt.PUBACK, 7) == 0
    await client.publish("b")
    assert [each.kind for each in await packets(trace, 3)] == ["PUBACK", "PUBLISH", "PUBACK"]


async def test_a_client_that_connects_again_is_followed(broker: RunningBroker) -> None:
    client = await broker.connect("lamp")
    trace = await following(broker, "lamp")
    await client.vanish()
    assert (await anext(trace)).kind == "ended"
    again = await broker.connect("lamp", 5)
    assert [each.kind for each in await packets(trace, 3)] == ["begun", "CONNECT", "CONNACK"]
    await again.publish("a")
    assert (await anext(trace)).kind == "PUBLISH"


async def test_the_connection_goes_on_without_the_tap_afterwards(broker: RunningBroker) -> None:
    client = await broker.connect("lamp", 5)
    connection = broker.node.mqtt.open_connections()[0]
    stream = connection.stream
    trace = await following(broker, "lamp")
    assert connection.stream is not stream
    await trace.aclose()  # type: ignore[attr-defined]  # it is a generator
    assert connection.stream is stream
    assert await client.publish("a") in (0, 0x10)
    await NodeOperations(broker.node).disconnect_client("lamp")
    await client.is_ended(0x98)


@pytest.mark.parametrize("ends_first", [0, 1])
async def test_several_follow_one_client_and_end_in_any_order(broker: RunningBroker, ends_first: int) -> None:
    client = await broker.connect("lamp")
    connection = broker.node.mqtt.open_connections()[0]
    stream = connection.stream
    traces = [await following(broker, "lamp"), await following(broker, "lamp")]
    await client.publish("a")
    for trace in traces:
        assert [each.kind for each in await packets(trace, 2)] == ["PUBLISH", "PUBACK"]
    await traces.pop(ends_first).aclose()  # type: ignore[attr-defined]  # it is a generator
    await client.publish("b")
    assert [each.kind for each in await packets(traces[0], 2)] == ["PUBLISH", "PUBACK"]
    await traces[0].aclose()  # type: ignore[attr-defined]
    assert connection.stream is stream
    assert await client.publish("c") in (0, 0x10)


async def test_what_nobody_reads_in_time_is_left_out_and_counted(broker: RunningBroker) -> None:
    client = await broker.connect("lamp")
    trace = await following(broker, "lamp")
    for _ in range(UNREAD_MAX + 10):
        client.send(mqtt.pingreq())
    for _ in range(UNREAD_MAX + 10):
        await client.awaited(mqtt.PINGRESP)
    kept = await packets(trace, UNREAD_MAX)
    assert {each.kind for each in kept} == {"PINGREQ", "PINGRESP"}
    await client.round_trip()
    assert (await anext(trace)).left_out_count == 2 * (UNREAD_MAX + 10) - UNREAD_MAX


async def test_frames_of_amqp_have_the_names_of_the_standard(broker: RunningBroker, amqp: AmqpClients) -> None:
    """AMQP 2.7: attach, flow, transfer, disposition, detach."""
    await create(broker)
    client = await amqp.connect("shop")
    trace = await following(broker, "shop", 100)
    await client.sender("out", "q", handle=0)
    delivery_id = client.transfer(0, body("hello"))
    assert (await client.outcome(delivery_id)).code == ACCEPTED
    await client.detached(0, closed=True)

    found = {(each.direction, each.kind): each for each in await packets(trace, 7)}

    attach = found["received", "attach"].fields
    assert (attach["name"], attach["role"], attach["target"]) == ("out", "sender", "q")
    assert found["sent", "flow"].fields["handle"] == 0
    transfer = found["received", "transfer"]
    assert (transfer.fields["delivery_id"], transfer.payload, transfer.payload_encoding) == (0, "hello", "text")
    disposition = found["sent", "disposition"]
    assert (disposition.fields["role"], disposition.fields["state"]) == ("receiver", "accepted")
    assert found["received", "detach"].fields == {"channel": 0, "handle": 0, "closed": True}
    await trace.aclose()  # type: ignore[attr-defined]  # it is a generator
    await client.sender("again", "q", handle=0)


async def test_frames_of_the_flow_protocol_have_their_names(broker: RunningBroker) -> None:
    await create(broker)
    async with FlowClient(broker.flow_port, name="loader") as client:
        trace = await following(broker, "loader", 100)
        opened = await client.opens_publisher("lines")
        client.publishes(opened.flow_id, [1], queue="q", payload=b"hello", headers=Headers())
        assert await client.answered(opened.flow_id, 1) == []
        flow_id = await client.binds("q")
        await client.receives_in_all(1, flow_id)
        client.accepts_through(flow_id, 1)
        await client.unbinds(flow_id)

        seen: dict[tuple[str, str], TracedPacket] = {}
        while ("sent", "UNBIND") not in seen:
            each = await anext(trace)
            seen[each.direction, each.kind] = each

        assert seen["received", "OPEN_PUB"].fields["name"] == "lines"
        publish = seen["received", "PUBLISH"]
        assert (publish.fields["queue"], publish.fields["sequence"], publish.payload) == ("q", 1, "hello")
        assert seen["sent", "PUB_ACK"].fields["answered_through"] == 1
        deliver = seen["sent", "DELIVER"]
        assert (deliver.fields["delivery_id"], deliver.payload) == (1, "hello")
        assert seen["received", "SETTLE"].fields["accepted_through"] == 1
        assert seen["sent", "UNBIND"].fields["response"] is True
        await trace.aclose()  # type: ignore[attr-defined]  # it is a generator
        await client.binds("q")


async def test_only_clients_that_are_there_can_be_traced(broker: RunningBroker) -> None:
    with pytest.raises(ClientNotFound):
        await NodeOperations(broker.node).trace_client("nobody", 0)


def test_sasl_responses_are_never_shown() -> None:
    begun = sasl_frame(encode_composite(INIT, [Symbol("PLAIN"), b"\0ann\0hunter2", "host"]))
    answered = sasl_frame(encode_composite(RESPONSE, [b"hunter2"]))
    opened = frame(0, Open("shop", properties=AmqpMap([(Symbol("token"), "hunter2")])).encode())
    amqp = AmqpFrames().read(begun + answered + opened + HEARTBEAT)
    assert [words.kind for words, _ in amqp] == ["sasl-init", "sasl-response", "open", "empty frame"]
    assert amqp[0][0].fields == {"mechanism": "PLAIN", "initial_response": "12 bytes, not shown", "hostname": "host"}
    assert amqp[2][0].fields["properties"] == "token"
    flow = FlowFrames().read(Auth("PLAIN", b"\0ann\0hunter2").encode() + AuthAnswer(1, b"hunter2").encode())
    assert flow[0][0].fields == {"mechanism": "PLAIN", "sasl_data": "12 bytes, not shown"}
    shown = str([amqp, flow])
    assert "hunter2" not in shown
    assert b"hunter2".hex() not in shown


def test_the_error_of_an_amqp_frame_is_its_reason() -> None:
    error = rejected("amqp:not-found", "no queue 'q'").error
    ((words, _),) = AmqpFrames().read(frame(3, Detach(1, closed=True, error=error).encode()))
    assert (words.fields, words.reason) == ({"channel": 3, "handle": 1, "closed": True}, "amqp:not-found: no queue 'q'")


def test_a_password_is_never_shown() -> None:
    will = mqtt.WillPart("state", b"gone", qos=1, retain=True)
    said = mqtt.connect("lamp", level=5, user_name="ann", password=b"hunter2", will=will, keep_alive_s=60)
    ((first_byte, body, size),) = PacketCutter().cut(said)
    words = PacketReader(0).words(first_byte, body)
    assert (words.kind, size) == ("CONNECT", len(said))
    assert words.fields["user_name"] == "ann"
    assert (words.fields["will_topic"], words.fields["will_bytes"], words.fields["will_qos"]) == ("state", 4, 1)
    assert "hunter2" not in str(words)


def test_packets_are_cut_wherever_the_network_cuts_them() -> None:
    said = mqtt.publish("a", b"x" * 300, level=5) + mqtt.pingreq() + mqtt.publish("b", b"", level=5, qos=1)
    cutter = PacketCutter()
    found = [packet for byte in said for packet in cutter.cut(bytes([byte]))]
    assert found == PacketCutter().cut(said)
    assert [first_byte >> 4 for first_byte, _, _ in found] == [3, 12, 3]


@pytest.mark.parametrize("body", [b"", b"\x00", b"\x00\x05ab", b"\xff" * 20])
@pytest.mark.parametrize("first_byte", range(0x10, 0x100, 0x10))
def test_what_cannot_be_read_is_said_to_be_so(first_byte: int, body: bytes) -> None:
    """No packet, however broken, raises."""
    PacketReader(5).words(first_byte, body)


def test_of_a_large_frame_the_beginning_is_read_and_the_next_one_is_found() -> None:
    large = write_publish(7, 1, "a", bytes(1_000_000), None, to_queue=False, ttl_ms=0, delay_ms=0)
    (publish, size), (ping, _) = FlowFrames().read(large + Ping(3, is_pong=False).encode())
    assert (publish.kind, publish.fields["topic"], size) == ("PUBLISH", "a", len(large))
    assert (ping.kind, ping.fields) == ("PING", {"number": 3})


def only(reader: AmqpFrames | FlowFrames, data: bytes) -> TracedPacket:
    """Return what a trace keeps of the one frame in `data`, as its reader gets it."""
    ((words, size),) = reader.read(data)
    packet = traced_packet(words, size, client="lamp", direction="received", address="client", time_ms=1)
    assert PACKET.validate_json(PACKET.dump_json(packet)) == packet
    return packet


def test_what_is_kept_of_a_packet_is_bounded_and_says_so() -> None:
    """Until it is read, and a thousand of them are."""
    headers = Headers(
        user_properties=[("long", "x" * 20_000), ("next", "y")],
        content_type="text/plain",
        message_id="z" * 20_000,
    )
    data = write_publish(7, 1, "a", b"", headers, to_queue=False, ttl_ms=0, delay_ms=0)
    packet = only(FlowFrames(), data)
    assert packet.properties == (
        ("message_id", "z" * (TEXT_CHARS_MAX - len("message_id")) + CUT),
        ("not_shown", "3 more"),
    )
    mqtt_packet = PacketReader(4).words(0x82, b"\0\1" + b"\0\4abcd\0" + (b"\0\1a\0" * 1000))
    packet = traced_packet(mqtt_packet, 1, client="lamp", direction="received", address="client", time_ms=1)
    assert len(packet.fields) == ENTRIES_MAX + 1
    assert packet.fields["filter_1"] == "abcd"
    assert packet.fields["not_shown"] == f"{1 + 2 * 1001 - ENTRIES_MAX} more"
    refused = PacketWords("detach", reason="q" * 20_000)
    packet = traced_packet(refused, 1, client="lamp", direction="received", address="client", time_ms=1)
    assert packet.reason == "q" * TEXT_CHARS_MAX + CUT


def test_of_a_compressed_frame_no_more_is_inflated_than_is_looked_at() -> None:
    payload = bytes(2_000_000)
    plain = write_publish(7, 1, "a", payload, None, to_queue=False, ttl_ms=0, delay_ms=0)
    ((words, _),) = FlowFrames().read(compressed(plain, body_of(plain)))
    assert (words.kind, words.fields["topic"], words.fields["compressed"]) == ("PUBLISH", "a", True)
    assert words.payload is not None
    assert 0 < len(words.payload) < BODY_BYTES_MAX


def test_a_peers_own_values_are_never_shown() -> None:
    """Of maps of properties the names are; what is no map may be anything."""
    own = AmqpMap([(Symbol("token"), "hunter2")])
    for described in (0x28, 0x29):
        terminus = Described(ulong(described), ["q", None, None, None, True, own])
        attach = encode_composite(ATTACH, ["l", uint(0), False, None, None, terminus, terminus])
        properties = dict(only(AmqpFrames(), frame(0, attach)).properties)
        end = "source" if described == 0x28 else "target"
        assert properties[f"{end} dynamic_node_properties"] == "token"
    flow = encode_composite(FLOW, [None, uint(1), uint(1), uint(1), *[None] * 6, ["hunter2"]])
    assert only(AmqpFrames(), frame(0, flow)).fields["properties"] == "not shown"
    attach = encode_composite(ATTACH, ["l", uint(0), False, None, None, None, None, "hunter2"])
    assert only(AmqpFrames(), frame(0, attach)).fields["unsettled"] == "not shown"


def with_fields(*fields: tuple[int, bytes]) -> bytes:
    data = b"".join(number.to_bytes(2, "big") + len(value).to_bytes(2, "big") + value for number, value in fields)
    return encode_frame(CURSOR_STATUS, 0, 0, data, b"")


def test_numbers_of_the_flow_protocol_are_shown_as_they_are() -> None:
    """Also those that a JSON reader would round, and what is longer than a number is."""
    ids = with_fields((PARTITION_IDS, bytes(7) + b"\x05" + bytes([255] * 8)))
    assert only(FlowFrames(), ids).fields["partition_ids"] == "5, 18446744073709551615"
    assert only(FlowFrames(), with_fields((PARTITION_IDS, bytes(9)))).fields["partition_ids"] == "9 bytes"
    large = only(FlowFrames(), with_fields((INCARNATION, bytes([255] * 8)), (CURSOR_EPOCH, b"\x07")))
    assert large.fields == {"incarnation": "18446744073709551615", "cursor_epoch": 7}
    wrong = only(FlowFrames(), with_fields((INCARNATION, bytes(4000)), (CODE, bytes([255] * 4000))))
    assert (wrong.fields, wrong.reason_code) == ({"incarnation": "4000 bytes", "code": "4000 bytes"}, None)
    right = only(FlowFrames(), with_fields((CODE, b"\0\1")))
    assert (right.fields, right.reason_code) == ({}, 1)


def test_user_properties_are_shown_alike_in_every_protocol() -> None:
    own: list[tuple[str, UserPropertyValue]] = [("a", b"\x01"), ("b", True), ("c", None), ("d", 12), ("e", "text")]
    shown = ("01", "true", "", 12, "text")
    publish = write_publish(7, 1, "a", b"", Headers(user_properties=own), to_queue=False, ttl_ms=0, delay_ms=0)
    assert tuple(value for _, value in only(FlowFrames(), publish).properties) == shown
    pairs: list[tuple[AmqpValue, AmqpValue]] = [(key, value) for key, value in own]
    section = b"\x00\x53\x74" + encode(AmqpMap(pairs))
    transfer = encode_composite(TRANSFER, [uint(0), uint(0), b"1"]) + section
    assert tuple(value for _, value in only(AmqpFrames(), frame(0, transfer)).properties) == shown


FLOW_GOLDEN: Final = [each.data for each in golden_frames()[1:]] + [each.data for each in compressed_frames()]
AMQP_GOLDEN: Final = [data for data in golden("frames.txt").values() if len(data) > 8]


@st.composite
def flow_frames(draw: st.DrawFn) -> bytes:
    """Return a frame of a right length: one of the golden ones with some bytes changed, or of random content."""
    if draw(st.booleans()):
        return _changed(draw, draw(st.sampled_from(FLOW_GOLDEN)), 4)
    fields, content = draw(st.binary(max_size=60)), draw(st.binary(max_size=100))
    return encode_frame(draw(st.sampled_from(sorted(NAMES))), draw(st.integers(0, 255)), 1, fields, content)


@st.composite
def amqp_frames(draw: st.DrawFn) -> bytes:
    """Return a frame of a right length, and with a right head."""
    if draw(st.booleans()):
        return _changed(draw, draw(st.sampled_from(AMQP_GOLDEN)), 8)
    content = draw(st.binary(max_size=150))
    return (8 + len(content)).to_bytes(4, "big") + bytes([2, draw(st.integers(0, 1)), 0, 0]) + content


def _changed(draw: st.DrawFn, data: bytes, first: int) -> bytes:
    """Return a frame with other bytes from `first` on, and the same length."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(0, 4))):
        changed[draw(st.integers(first, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(changed)


@given(data=flow_frames(), at=st.integers(0, 250))
def test_no_frame_of_the_flow_protocol_breaks_its_trace(data: bytes, at: int) -> None:
    _is_shown_wherever_it_is_cut(FlowFrames, data, at)


@given(data=amqp_frames(), at=st.integers(0, 250))
def test_no_frame_of_amqp_breaks_its_trace(data: bytes, at: int) -> None:
    _is_shown_wherever_it_is_cut(AmqpFrames, data, at)


def _is_shown_wherever_it_is_cut(reader: type[AmqpFrames | FlowFrames], data: bytes, at: int) -> None:
    only(reader(), data)
    in_pieces = reader()
    assert in_pieces.read(data[:at]) + in_pieces.read(data[at:]) == reader().read(data)


@pytest.mark.parametrize("reader", [AmqpFrames, FlowFrames])
@given(data=st.binary(max_size=200), at=st.integers(0, 199))
def test_no_bytes_break_the_trace_of_frames(reader: type[AmqpFrames | FlowFrames], data: bytes, at: int) -> None:
    """Frames of any length: whatever comes, something is shown or more is waited for."""
    in_pieces = reader()
    assert reader().read(data) == in_pieces.read(data[:at]) + in_pieces.read(data[at:])
