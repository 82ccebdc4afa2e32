"""Rules for payloads: a message that does not fit is refused, marked or counted, over every protocol alike."""

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

import support.mqtt.packets as mqtt
from sluicegate.gateway.config.document import ConfigError
from sluicegate.gateway.config.load import load
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.security.watched_files import Seen, WatchedSchemas
from sluicegate.messaging.clients import rights
from sluicegate.protocols.flow.codec import codes
from support.amqp.client import AmqpClient, body, in_transaction
from support.broker.inside_client import until
from support.broker.protocol_clients import OK, PROTOCOLS, Answer
from support.broker.running_broker import RunningBroker
from support.flow.bulk_client import BulkClient, rows_of
from support.flow.client import Refused
from support.mqtt.raw_client import RawClient

GOOD: Final = b'{"id": 7}'
BAD: Final = b'{"id": "seven"}'
NUMBERED: Final = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
METRIC: Final = "sluicegate_payload_rule_messages_total"
UNFIT: Final = "CLIENT_CLIENT_PAYLOAD_INVALID"


def rule(action: str = "refuse", topic: str = "orders/>", name: str = "orders") -> str:
    return f"{{name: {name}, topics: ['{topic}'], schema_file: order.json, action: {action}}}"


def settings(folder: Path, *rules: str) -> tuple[str, ...]:
    return f"schemas.folder={folder}", f"payload_rules=[{', '.join(rules)}]"


@asynccontextmanager
async def broker_with(tmp_path: Path, *rules: str) -> AsyncIterator[RunningBroker]:
    folder = tmp_path / "schemas"
    folder.mkdir()
    (folder / "order.json").write_text(json.dumps(NUMBERED))
    async with RunningBroker(tmp_path / "data", settings(folder, *rules)) as broker:
        yield broker


async def counts(broker: RunningBroker) -> dict[tuple[str, ...], float]:
    samples = await NodeOperations(broker.node).metrics_snapshot()
    return {each.labels: each.value for each in samples if each.name == METRIC}


def events(broker: RunningBroker) -> list[str]:
    recent = broker.node.services.runtime.events.record.recent(0, 1000)
    return [each[1].text() for each in recent if each[1].kind.name == UNFIT]


async def answer_to(client: RawClient, topic: str, payload: bytes, *, retain: bool = False) -> int:
    packet_id = client.next_packet_id()
    level = client.level
    client.send(mqtt.publish(topic, payload, qos=1, packet_id=packet_id, level=level, retain=retain))
    return await client.answered(mqtt.PUBACK, packet_id)


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [("mqtt", 0x99), ("amqp", "amqp:decode-error"), ("flow", codes.PAYLOAD_INVALID), ("http", 422)],
)
async def test_a_payload_that_does_not_fit_is_refused_with_the_code_of_the_protocol(
    tmp_path: Path, protocol: str, expected: Answer
) -> None:
    """[5.0:3.4.2.1]: 0x99, Payload format invalid. The payloads are of a byte and no JSON object."""
    async with broker_with(tmp_path, rule()) as broker:
        client = PROTOCOLS[protocol](broker)
        assert await client.connect("", "") == OK
        assert await client.publish("orders/eu") == expected
        assert await client.publish("other") == OK
        await client.leave()
        assert broker.node.default.clients.denials.counts == {rights.PAYLOAD_INVALID: 1}
        assert await counts(broker) == {("refuse", "orders"): 1}
        (event,) = events(broker)
        assert "publish to 'orders/eu': rule 'orders': " in event


async def test_only_what_fits_reaches_subscribers(tmp_path: Path) -> None:
    async with broker_with(tmp_path, rule()) as broker:
        subscriber = await broker.connect("subscriber", 5)
        await subscriber.subscribe("orders/#", qos=1)
        publisher = await broker.connect("publisher", 5)
        packets = [
            mqtt.publish("orders/eu", payload, qos=1, packet_id=number, level=5)
            for number, payload in enumerate([GOOD, BAD, GOOD, BAD], 1)
        ]
        publisher.send(b"".join(packets))  # together: as one batch, of which two rows are refused
        found = [await publisher.answered(mqtt.PUBACK, number) for number in (1, 2, 3, 4)]
        assert [code >= 0x80 for code in found] == [False, True, False, True]
        publisher.send(mqtt.publish("orders/eu", BAD, level=5), mqtt.publish("orders/eu", b'{"id": 8}', level=5))
        assert await subscriber.payloads(3) == [GOOD, GOOD, b'{"id": 8}']
        assert await counts(broker) == {("fits", "orders"): 3, ("refuse", "orders"): 3}


async def test_a_client_of_mqtt_3_is_acknowledged_and_its_message_dropped(tmp_path: Path) -> None:
    """MQTT 3.1.1 has no code for it [3.1.1:3.3.5-2], and would send the message again for ever."""
    async with broker_with(tmp_path, rule()) as broker:
        publisher = await broker.connect("old", 4)
        subscriber = await broker.connect("subscriber", 5)
        await subscriber.subscribe("orders/#", qos=1)
        await answer_to(publisher, "orders/eu", BAD)
        await answer_to(publisher, "orders/eu", GOOD)
        assert await subscriber.payloads(1) == [GOOD]
        assert (await counts(broker))["refuse", "orders"] == 1


@pytest.mark.parametrize("action", ["mark", "count"])
async def test_other_actions_let_the_message_pass_and_report_it(tmp_path: Path, action: str) -> None:
    async with broker_with(tmp_path, rule(action)) as broker:
        subscriber = await broker.connect("subscriber", 5)
        await subscriber.subscribe("orders/#", qos=1)
        publisher = await broker.connect("publisher", 5)
        assert await answer_to(publisher, "orders/eu", BAD) == 0
        assert await answer_to(publisher, "orders/eu", GOOD) == 0
        marked, plain = await subscriber.messages(2)
        expected = [("sluicegate-unfit-rule", "orders")] if action == "mark" else []
        assert [(marked.payload, marked.values(38)), (plain.payload, plain.values(38))] == [
            (BAD, expected),
            (GOOD, []),
        ]
        assert await counts(broker) == {("fits", "orders"): 1, (action, "orders"): 1}
        assert len(events(broker)) == 1
        assert broker.node.default.clients.denials.counts == {}


async def test_deleting_a_retained_message_needs_no_payload_that_fits(tmp_path: Path) -> None:
    async with broker_with(tmp_path, rule()) as broker:
        publisher = await broker.connect("publisher", 5)
        assert await answer_to(publisher, "orders/eu", GOOD, retain=True) in (0, 0x10)
        assert await answer_to(publisher, "orders/eu", b"", retain=True) in (0, 0x10)
        assert await answer_to(publisher, "orders/eu", b"") == 0x99


async def test_a_will_that_does_not_fit_refuses_the_connection(tmp_path: Path) -> None:
    async with broker_with(tmp_path, rule()) as broker:
        client = await broker.open(5)
        client.send(mqtt.connect("device", level=5, will=mqtt.WillPart("orders/eu", BAD, 1)))
        await client.is_refused(0x99)
        client = await broker.open(5)
        client.send(mqtt.connect("device", level=5, will=mqtt.WillPart("orders/eu", GOOD, 1)))
        assert (await client.connack()).reason_code == 0


async def test_messages_of_transactions_are_checked_when_they_come(tmp_path: Path) -> None:
    async with broker_with(tmp_path, rule()) as broker:
        client = await AmqpClient.open(broker.amqp_port)
        await client.sender("out", "topic://orders/eu", handle=0)
        await client.coordinator(1)
        txn_id = await client.declare(1)
        outcome = await client.outcome(client.transfer(0, body(BAD), state=in_transaction(txn_id, None)))
        assert outcome.error is not None
        assert outcome.error.condition == "amqp:decode-error"
        client.vanish()
        staging = BulkClient(broker.flow_port)
        await staging.open()
        with pytest.raises(Refused) as refused:
            await staging.stages("job/1", 0, rows_of(["orders/eu"], [BAD]), 1)
        assert refused.value.error.code == codes.PAYLOAD_INVALID
        await staging.stages("job/2", 0, rows_of(["orders/eu"], [GOOD]), 1)
        await staging.close()


async def test_a_changed_schema_is_in_force_and_a_broken_one_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker_with(tmp_path, rule()) as broker:
        file = tmp_path / "schemas" / "order.json"
        publisher = await broker.connect("publisher", 5)
        assert await answer_to(publisher, "orders/eu", GOOD) == 0x10

        file.write_text("{")
        await broker.node.watched_schemas.look()
        assert "payload rule 'orders' of message VPN 'default' keeps its last schema" in caplog.text
        caplog.clear()
        assert await answer_to(publisher, "orders/eu", GOOD) == 0x10
        assert await answer_to(publisher, "orders/eu", BAD) == 0x99
        assert broker.node.default.payload_rules.stale_count == 1

        file.write_text(json.dumps({"properties": {"id": {"type": "string"}}}))
        await broker.node.watched_schemas.look()
        assert await answer_to(publisher, "orders/eu", GOOD) == 0x99
        assert await answer_to(publisher, "orders/eu", BAD) == 0x10
        assert broker.node.default.payload_rules.stale_count == 0


class SlowFile:
    """A schema file in a pipe: who reads it waits until `let_go` is called, or for `WAIT_S`."""

    WAIT_S = 10

    def __init__(self, file: Path, schema: object) -> None:
        pipe = file.with_name("pipe")
        os.mkfifo(pipe)
        pipe.replace(file)
        self._file = file
        self._text = json.dumps(schema)
        self._is_free = threading.Event()
        self.is_read = threading.Event()
        self.let_go = self._is_free.set
        self.written = asyncio.get_running_loop().run_in_executor(None, self._write)  # at once

    def _write(self) -> bool:
        """Return whether the reader was let go in time."""
        with self._file.open("w") as stream:  # when it is opened to be read
            self.is_read.set()
            in_time = self._is_free.wait(self.WAIT_S)
            stream.write(self._text)
        return in_time


@pytest.mark.parametrize("how", ["a changed file", "a reload"])
async def test_clients_are_served_while_schemas_are_read(tmp_path: Path, how: str) -> None:
    async with broker_with(tmp_path, rule()) as broker:
        publisher = await broker.connect("publisher", 5)
        slow = SlowFile(tmp_path / "schemas" / "order.json", {"properties": {"id": {"type": "string"}}})
        node = broker.node
        read = asyncio.ensure_future(
            node.watched_schemas.look() if how == "a changed file" else node.reload(broker.config)
        )
        await asyncio.to_thread(slow.is_read.wait)
        assert await answer_to(publisher, "orders/eu", GOOD) == 0x10
        assert await answer_to(publisher, "orders/eu", BAD) == 0x99
        slow.let_go()
        assert await slow.written, "the loop waited for the file"
        await read
        assert await answer_to(publisher, "orders/eu", GOOD) == 0x99
        assert await answer_to(publisher, "orders/eu", BAD) == 0x10


async def test_what_was_read_before_a_reload_is_not_put_in_force_after_it(tmp_path: Path) -> None:
    async with broker_with(tmp_path, rule()) as broker:
        publisher = await broker.connect("publisher", 5)
        base = [each for each in broker.settings if not each.startswith("payload_rules=")]
        without = load(settings=(*base, "payload_rules=[]"))
        slow = SlowFile(tmp_path / "schemas" / "order.json", NUMBERED)
        read = asyncio.ensure_future(broker.node.watched_schemas.look())
        await asyncio.to_thread(slow.is_read.wait)
        reload = asyncio.ensure_future(broker.node.reload(without))
        await publisher.round_trip()
        slow.let_go()
        assert await slow.written
        await asyncio.gather(read, reload)
        assert await answer_to(publisher, "orders/eu", BAD) == 0x10


async def test_files_are_looked_at_while_there_are_rules_and_after_a_look_that_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop, due, looked, rules = asyncio.get_running_loop(), [], [], [False]
    file = Path("order.json")

    def after(delay_ms: int, work: Callable[[], object]) -> asyncio.TimerHandle:
        due.append(work)
        return loop.call_later(delay_ms / 1000, work)

    async def look() -> dict[Path, Seen]:
        looked.append("files")
        if len(looked) == 1:
            raise RuntimeError("can't start new thread")
        return {file: (1, 2, 3)}

    async def read_again() -> None:
        looked.append("read")

    lock = asyncio.Lock()
    watched = WatchedSchemas(
        after, {file: None}, change_lock=lock, is_used=lambda: rules[0], look=look, read_again=read_again
    )
    due.pop()()
    assert not looked
    rules[0] = True
    for _ in range(3):
        due.pop()()
        await until(lambda: bool(due), "the next look")
    assert looked == ["files", "files", "read", "files"]
    assert "schema files could not be looked at: can't start new thread" in caplog.text
    caplog.clear()
    watched.end()


async def test_a_reload_adds_and_removes_rules_for_connected_clients(tmp_path: Path) -> None:
    async with broker_with(tmp_path) as broker:
        publisher = await broker.connect("publisher", 5)
        assert await answer_to(publisher, "orders/eu", BAD) == 0x10
        rights_of_it = broker.node.default.clients.rights_of(None, "publisher")
        assert rights_of_it is not None
        assert not rights_of_it.limits_publishing  # nothing is looked up without rules

        base = [each for each in broker.settings if not each.startswith("payload_rules=")]
        await broker.node.reload(load(settings=(*base, f"payload_rules=[{rule()}]")))
        assert await answer_to(publisher, "orders/eu", BAD) == 0x99
        await broker.node.reload(load(settings=(*base, "payload_rules=[]")))
        assert await answer_to(publisher, "orders/eu", BAD) == 0x10


def test_a_configuration_with_an_unusable_rule_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "order.json").write_text("{")
    with pytest.raises(ConfigError, match=r"payload_rules\.0\.schema_file.*'order.json' is not JSON"):
        load(settings=settings(tmp_path, rule()))
    with pytest.raises(ConfigError, match=r"schemas\.folder is missing"):
        load(settings=(f"payload_rules=[{rule()}]",))
    with pytest.raises(ConfigError, match="appears 2 times"):
        load(settings=settings(tmp_path, rule(), rule()))


async def test_no_loop_is_kept_busy_beyond_the_largest_payload(tmp_path: Path) -> None:
    folder = tmp_path / "schemas"
    folder.mkdir()
    (folder / "order.json").write_text("true")
    limits = (*settings(folder, rule()), "schemas.payload_bytes_max=10")
    async with RunningBroker(tmp_path / "data", limits) as broker, asyncio.timeout(60):
        publisher = await broker.connect("publisher", 5)
        assert await answer_to(publisher, "orders/eu", b'"12345678"') == 0x10
        assert await answer_to(publisher, "orders/eu", b'"123456789"') == 0x99
