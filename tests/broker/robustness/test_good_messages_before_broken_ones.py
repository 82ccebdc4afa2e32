"""A good and a broken message in one write: the good one is stored whole, and nothing of the broken one is."""

import asyncio

import pytest

import support.mqtt.packets as mqtt
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.keys import key_hash
from sluicegate.protocols.amqp.codec.delivery_states import ACCEPTED, ACCEPTED_STATE, REJECTED, DeliveryState
from sluicegate.protocols.amqp.types import errors as conditions
from sluicegate.protocols.amqp.types.encoding import encode
from sluicegate.protocols.amqp.types.values import AmqpValue, Described, ulong
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec import columns as c
from sluicegate.protocols.flow.codec.frames.publish import write_publish
from sluicegate.protocols.flow.codec.frames.session import Error
from sluicegate.protocols.flow.codec.frames.stage import write_stage
from support.amqp.client import AmqpClient
from support.amqp.received import Ended
from support.broker.named_queues import create, shown
from support.broker.running_broker import RunningBroker
from support.flow.bulk_client import BulkClient, rows_of
from support.flow.client import FlowClient, Refused
from support.http.client import http_client
from support.mqtt.raw_client import RawClient

MARK = "mark"  # stands where a text is broken afterwards
NO_TEXT = b"\xff\xfe\xfd\xfc"


def keyed(key: str) -> Headers:
    return Headers(partition_key=key, key_hash=key_hash(key))


def described(text: str) -> Headers:
    return Headers(user_properties=[("note", text)])


def flow_publish(flow_id: int, sequence: int, headers: Headers | None, topic: str = "t") -> bytes:
    """Return a PUBLISH; what is called MARK in it is no UTF-8."""
    frame = write_publish(
        flow_id, sequence, topic, str(sequence).encode(), headers, to_queue=False, ttl_ms=0, delay_ms=0
    )
    return frame.replace(MARK.encode(), NO_TEXT)


async def delivered(broker: RunningBroker) -> list[tuple[bytes, str | None]]:
    """Take what lies in the queue, with its partition keys."""
    count = (await shown(broker, "q")).ready_count
    async with FlowClient(broker.flow_port, name="reader") as client:
        flow_id = await client.binds("q")
        got = await client.receives_in_all(count, flow_id)
        client.accepts_through(flow_id, count)
        await client.unbinds(flow_id)
    return [(each.payload, None if each.headers is None else each.headers.partition_key) for each in got]


@pytest.mark.parametrize("good", [keyed("k"), described("well"), None], ids=["keyed", "described", "bare"])
@pytest.mark.parametrize("broken", ["key", "property", "topic"])
async def test_flow_a_broken_publish_takes_nothing_from_the_one_before_it(
    broker: RunningBroker, good: Headers | None, broken: str
) -> None:
    """Flow: errors. The broken one ends the connection with an ERROR; the good one is there, over a crash too."""
    broker.ignores_violations()
    await create(broker, subscriptions=["t"])
    headers = {"key": keyed(MARK), "property": described(MARK), "topic": keyed("k")}[broken]
    client = FlowClient(broker.flow_port)
    await client.open()
    flow_id = (await client.opens_publisher()).flow_id
    client.send(flow_publish(flow_id, 1, good) + flow_publish(flow_id, 2, headers, MARK if broken == "topic" else "t"))

    error = await client.heard(Error)
    assert error.code == codes.MALFORMED
    assert "UTF-8" in error.text
    await client.ended()
    async with FlowClient(broker.flow_port) as other:
        opened = await other.opens_publisher()
        other.publishes(opened.flow_id, [7], topic="t")
        assert await other.answered(opened.flow_id, 7) == []
    await broker.crash()
    key = None if good is None else good.partition_key
    assert await delivered(broker) == [(b"1", key), (b"7", None)]


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_mqtt_a_broken_publish_takes_nothing_from_the_one_before_it(broker: RunningBroker, qos: int) -> None:
    """MQTT 1.5.4: a text that is no UTF-8 is a malformed packet; what came before it counts."""
    broker.ignores_violations()
    await create(broker, subscriptions=["t"])
    client = await RawClient.open(broker.port, 5)
    await client.connect("sender")
    good = mqtt.user_property("note", "well")
    bad = mqtt.user_property("note", MARK).replace(MARK.encode(), NO_TEXT)
    client.send(
        mqtt.publish("t", b"1", level=5, qos=qos, packet_id=1 if qos else 0, properties=good)
        + mqtt.publish("t", b"2", level=5, qos=qos, packet_id=2 if qos else 0, properties=bad)
    )
    answer = mqtt.server_disconnect(await client.awaited(mqtt.DISCONNECT))
    assert answer.reason_code in (0x81, 0x99)
    async with asyncio.timeout(20):
        while (await shown(broker, "q")).ready_count < 1:
            await asyncio.sleep(0.01)
    await broker.crash()
    assert await delivered(broker) == [(b"1", None)]


def amqp_message(payload: bytes, key: str) -> bytes:
    """Return a message with a group-id; MARK is no UTF-8."""
    fields: list[AmqpValue] = [None] * 10
    properties = encode(Described(ulong(0x73), [*fields, key]))
    return properties.replace(MARK.encode(), NO_TEXT) + encode(Described(ulong(0x75), payload))


async def test_amqp_a_message_that_cannot_be_decoded_is_rejected_alone(broker: RunningBroker) -> None:
    """AMQP 3.4.3: of three deliveries in one write, the second is no message; the others are accepted and kept."""
    await create(broker, subscriptions=["t"])
    client = await AmqpClient.open(broker.amqp_port)
    await client.sender("l", "topic://t")
    with client.one_write():
        ids = [client.transfer(9, amqp_message(b"%d" % number, key)) for number, key in enumerate(("a", MARK, "c"))]
    states = [await client.outcome(each) for each in ids]
    assert [state.code for state in states] == [ACCEPTED, REJECTED, ACCEPTED]
    assert states[1].error is not None
    assert states[1].error.condition == conditions.DECODE_ERROR
    await broker.crash()
    assert await delivered(broker) == [(b"0", "a"), (b"2", "c")]


async def test_amqp_a_broken_transfer_takes_nothing_from_the_one_before_it(broker: RunningBroker) -> None:
    """AMQP 2.3: a frame that is none ends the connection with an error; what came before it counts."""
    broker.ignores_violations()
    await create(broker, subscriptions=["t"])
    client = await AmqpClient.open(broker.amqp_port)
    await client.sender("l", "topic://t")
    with client.one_write():
        client.transfer(9, amqp_message(b"1", "a"))
        client.send(b"\x00\x53\x14\xc0\x05\x02\x43\xa1\x02\xff\xfe")
    assert (await client.awaited(Ended)).error is not None
    await broker.crash()
    assert await delivered(broker) == [(b"1", "a")]


async def test_amqp_a_transaction_with_a_message_that_is_none_is_all_or_nothing(broker: RunningBroker) -> None:
    """AMQP 4.3: the message that cannot be decoded is rejected, and so is the transaction."""
    await create(broker, subscriptions=["t"])
    client = await AmqpClient.open(broker.amqp_port)
    await client.coordinator(3)
    await client.sender("l", "topic://t")
    txn_id = await client.declare(3)
    state = DeliveryState(0x34, txn_id=txn_id)
    with client.one_write():
        for number, key in enumerate(("a", MARK, "c")):
            client.transfer(9, amqp_message(b"%d" % number, key), state=state)
    assert (await client.discharge(3, txn_id)).code == REJECTED
    client.transfer(9, amqp_message(b"after", "a"))
    assert await client.outcome(client.sent_count - 1) == ACCEPTED_STATE
    await broker.crash()
    assert await delivered(broker) == [(b"after", "a")]


@pytest.mark.parametrize(
    "broken",
    [
        b'{"base64": "?", "headers": {"Sluicegate-Partition-Key": "b"}}',
        b'{"payload": "2", "headers": {"Sluicegate-Partition-Key": "' + b"b" * 256 + b'"}}',
        b'{"payload": "2", "headers": {"Sluicegate-Priority": "many"}}',
    ],
    ids=["payload", "key", "priority"],
)
async def test_http_a_line_that_is_no_message_takes_nothing_from_its_neighbours(
    broker: RunningBroker, broken: bytes
) -> None:
    """HTTP: batches. Each line has an answer of its own."""
    await create(broker, subscriptions=["t"])
    good = [b'{"payload": "%d", "headers": {"Sluicegate-Partition-Key": "k"}}' % number for number in (1, 3)]
    async with http_client(broker) as client:
        body = b"\n".join([good[0], broken, good[1]])
        answer = await client.post("/TOPIC/t", content=body, headers={"Sluicegate-Batch": "ndjson"})
    assert answer.status_code == 207, answer.text
    assert ['"status":200' in line for line in answer.text.splitlines()] == [True, False, True]
    await broker.crash()
    assert await delivered(broker) == [(b"1", "k"), (b"3", "k")]


@pytest.mark.parametrize("column", [c.TOPIC, c.PARTITION_KEY, c.MESSAGE_ID], ids=["topic", "key", "message id"])
async def test_staged_rows_of_which_one_is_broken_are_refused_together(broker: RunningBroker, column: int) -> None:
    """Flow: staged publishing. Nothing of the STAGE is kept, and all of the PUBLISH before it in the same write."""
    broker.ignores_violations()
    await create(broker, subscriptions=["t"])
    columns = rows_of(["t", MARK if column == c.TOPIC else "t"], [b"2", b"3"])
    if column != c.TOPIC:
        columns.put_optional(column, [b"k", MARK.encode()])
    stage = write_stage(77, "w", 0, 0, to_queues=False, count=2, columns=columns.columns, data=columns.encoded())
    client = BulkClient(broker.flow_port)
    await client.open()
    flow_id = (await client.opens_publisher()).flow_id
    client.send(flow_publish(flow_id, 1, keyed("k")) + stage.replace(MARK.encode(), NO_TEXT))
    assert (await client.heard(Error)).code == codes.MALFORMED
    async with BulkClient(broker.flow_port) as other:
        with pytest.raises(Refused):
            await other.commits("w", (0, 0))
    client.cut()
    await client.ended()
    await broker.crash()
    assert await delivered(broker) == [(b"1", "k")]
