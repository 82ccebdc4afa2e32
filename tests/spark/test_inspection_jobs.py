"""The jobs that look at a queue and take nothing: `dmq`, `profile` and `presence`."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from sluicegate import BlockingClient, Message
from sluicegate.messaging.message import headers as dead
from sluicegate.pipeline.configuration import SchemaTable
from sluicegate.pipeline.decode.stage import decoder_for
from sluicegate.pipeline.failures import JobFailed
from sluicegate.pipeline.jobs.dmq.job import DmqJob, dmq
from sluicegate.pipeline.jobs.dmq.job import findings as dead_findings
from sluicegate.pipeline.jobs.presence.connections import connections, events_in, presence_of, silent_in
from sluicegate.pipeline.jobs.presence.job import PresenceJob, PresenceTable, presence
from sluicegate.pipeline.jobs.profile.job import TOPICS_MAX
from sluicegate.pipeline.jobs.profile.job import findings as payload_findings
from support.processes.gateway import GatewayProcess, gateway, wait_until

AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
SCHEMA = (
    "partition int, sequence long, topic string, payload binary, received timestamp, user_properties map<string,string>"
)


def rows(spark: SparkSession, messages: Sequence[tuple[str | None, bytes, int, dict[str, str]]]) -> DataFrame:
    """Messages of one partition: topic, payload, seconds since AT, user properties."""
    made = [
        (0, number, topic, payload, AT + timedelta(seconds=second), properties)
        for number, (topic, payload, second, properties) in enumerate(messages, start=1)
    ]
    return spark.createDataFrame(made, SCHEMA)


def death(queue: str, reason: str, *, cause: str = "", deliveries: int = 1, again: bool = False) -> dict[str, str]:
    properties = {dead.QUEUE: queue, dead.REASON: reason, dead.DELIVERY_COUNT: str(deliveries)}
    if cause:
        properties[dead.CAUSE] = cause
    return {**properties, dead.VIA: "other"} if again else properties


def test_dead_messages_are_grouped_and_each_death_has_its_step(spark: SparkSession) -> None:
    failed = [
        ("a/b", b"12", second, death("orders", "max_redelivery_exceeded", cause=f"no row {second}f3", deliveries=4))
        for second in range(3)
    ]
    messages = [
        *failed,
        ("a/c", b"1", 9, death("it's", "expired", deliveries=0)),
        ("a/c", b"1", 5, death("slow", "rejected", cause="no", again=True)),
        ("a/c", b"1", 5, {}),
    ]
    found = dead_findings(rows(spark, messages), "#DMQ", samples=2)
    assert (found.count, found.others_count, found.is_clean) == (6, 0, False)
    first = found.groups[0]
    assert (first.queue, first.reason, first.cause) == ("orders", "max_redelivery_exceeded", "no row #")
    assert (first.count, first.payload_bytes, first.deliveries_max, first.died_again_count) == (3, 6, 4, 0)
    assert (first.oldest, first.newest) == ("2026-03-04T05:06:07.000Z", "2026-03-04T05:06:09.000Z")
    assert (first.topics, first.samples) == (["a/b"], ["0:1", "0:2"])
    redrive = "sluicegate queue redrive '#DMQ' --dead-queue"
    assert {(step.do, step.count, step.command) for step in found.plan} == {
        ("redrive", 3, f"{redrive} orders --dead-reason max_redelivery_exceeded --rate 50"),
        ("redrive", 1, f"{redrive} 'it'\"'\"'s' --dead-reason expired"),
        ("examine", 1, "sluicegate queue browse '#DMQ'"),
    }
    assert json.loads(json.dumps(found.figures()))["groups"][0]["cause"] == "no row #"


def test_forged_dead_letter_properties_neither_count_nor_end_the_job(spark: SparkSession) -> None:
    """The gateway's own properties come behind those of publishers, and a message that never died has only these."""
    forged = {dead.REASON: "x", dead.TIME_MS: "soon", dead.DELIVERY_COUNT: "99999999999"}
    real = [(dead.QUEUE, "orders"), (dead.REASON, "expired"), (dead.TIME_MS, str(int(AT.timestamp() * 1000)))]
    of_both = [*forged.items(), *real, (dead.DELIVERY_COUNT, "2")]
    table = pa.table(
        {
            "partition": pa.array([0, 0, 0], pa.int32()),
            "sequence": [1, 2, 3],
            "topic": ["t", "t", "t"],
            "payload": [b"", b"", b""],
            "received": pa.array([AT + timedelta(days=1)] * 3, pa.timestamp("us", tz="UTC")),
            "user_properties": pa.array(
                [of_both, list(forged.items()), [(dead.REASON, "x"), (dead.TIME_MS, str(1 << 62))]],
                pa.map_(pa.string(), pa.string()),
            ),
        }
    )
    found = dead_findings(spark.createDataFrame(table), "#DMQ", samples=1)
    assert {(each.queue, each.reason, each.count, each.deliveries_max, each.oldest) for each in found.groups} == {
        ("orders", "expired", 1, 2, "2026-03-04T05:06:07.000Z"),
        (None, "x", 2, 0, "2026-03-05T05:06:07.000Z"),
    }
    assert [(step.do, step.count) for step in found.plan] == [("redrive", 1)]


def test_a_text_of_a_publisher_that_repeats_itself_is_looked_through_once_and_does_not_end_the_jvm(
    spark: SparkSession,
) -> None:
    """Java keeps a frame of its stack for each repetition of a group to which an expression may go back."""
    causes = {"1-" * 100_000 + "f": "#", "1" * 200_000 + "g": "1" * 200_000 + "g"}
    messages = [("t", b"", 0, death("orders", "rejected", cause=cause)) for cause in causes]
    found = dead_findings(rows(spark, messages), "#DMQ", samples=1)
    assert {each.cause for each in found.groups} == set(causes.values())


def test_payloads_are_described_by_the_beginning_of_their_topic(spark: SparkSession) -> None:
    messages: list[tuple[str | None, bytes, int, dict[str, str]]] = [
        ("plant/7/t", b'{"t": 21.5, "n": 1, "o": {"x": [1]}, "nothing": null}', 0, {}),
        ("plant/7/p", b'{"t": 3, "name": "a"}', 0, {}),
        ("plant/8/t", b"\xff\xfe", 0, {}),
        (None, b"hello", 0, {}),
    ]
    found = payload_findings(rows(spark, messages), "q", levels=1, decoder=None)
    plant, queue = found.topics
    assert (plant.topic, plant.count, plant.formats) == ("plant", 3, {"json": 2, "binary": 1})
    assert plant.size_bytes["max"] == len(messages[0][1])
    assert plant.columns == "`n` bigint, `name` string, `o` struct<`x`:array<bigint>>, `t` double"
    assert (queue.topic, queue.formats, queue.columns) == (None, {"text": 1}, None)
    assert found.is_clean


def test_schema_mismatches_count_in_unlisted_topics_too(spark: SparkSession) -> None:
    often: list[tuple[str | None, bytes, int, dict[str, str]]] = [
        (f"t{number:03}", b"{}", 0, {}) for number in range(TOPICS_MAX)
    ]
    messages = [*often, *often, ("rare", b"none", 0, {})]
    decoder = decoder_for(SchemaTable(format="json", columns="t double"))
    found = payload_findings(rows(spark, messages), "q", levels=1, decoder=decoder)
    assert not any(each.undecodable_count for each in found.topics)
    assert (found.others_count, found.undecodable_count, found.is_clean) == (1, 1, False)


def test_columns_of_a_profile_are_those_of_a_decode_table_whatever_members_are_called(spark: SparkSession) -> None:
    payload = b'{"device-id": 1, "a`b": {"c,d": [{"e:f": true}], "g h": "x"}}'
    (found,) = payload_findings(rows(spark, [("t", payload, 0, {})]), "q", levels=1, decoder=None).topics
    decoder = decoder_for(SchemaTable(format="json", columns=found.columns))
    assert decoder is not None
    assert decoder.decode(payload) == json.loads(payload)


CONNECT = "#LOG/INFO/CLIENT/gate/CLIENT_CLIENT_CONNECT/default"
DISCONNECT = "#LOG/INFO/CLIENT/gate/CLIENT_CLIENT_DISCONNECT/default"
START = "#LOG/NOTICE/SYSTEM/gate/SYSTEM_SYSTEM_STARTUP_COMPLETE"


def test_connections_end_with_their_disconnect_or_with_what_shows_that_it_was_missed(spark: SparkSession) -> None:
    def event(topic: str, second: int, address: str = "") -> tuple[str | None, bytes, int, dict[str, str]]:
        return topic, f"CLIENT: ... MQTT client at {address} connected".encode(), second, {}

    events = [
        event(START, 0),
        event(f"{CONNECT}/a%2Fb", 1, "10.0.0.1:5"),
        event(f"{CONNECT}/a%2Fb", 3, "10.0.0.1:6"),  # a second connection, before the first is gone
        event(f"{DISCONNECT}/a%2Fb", 4, "10.0.0.1:5"),
        event(f"{DISCONNECT}/a%2Fb", 6, "10.0.0.1:6"),
        event(f"{CONNECT}/a%2Fb", 8, "10.0.0.1:7"),  # its end is not told: the node crashed
        event(START, 20),
        event(f"{CONNECT}/c", 21, "10.0.0.2:1"),
        event(f"{DISCONNECT}/d", 22, "10.0.0.3:1"),  # its connect was not told, so nothing is known
        event("#LOG/INFO/CLIENT/gate/CLIENT_CLIENT_BIND_SUCCESS/default/c", 23, "10.0.0.2:1"),
    ]
    found = connections(events_in(rows(spark, events)))

    def seconds(row: Any) -> tuple[str, int, int | None]:
        began, ended = row.began.replace(tzinfo=UTC), row.ended and row.ended.replace(tzinfo=UTC)
        return row.client, (began - AT).seconds, ended and (ended - AT).seconds

    assert sorted(seconds(row) for row in found.collect()) == [
        ("a/b", 1, 4), ("a/b", 3, 6), ("a/b", 8, 20), ("c", 21, None),
    ]  # fmt: skip
    assert found.where("ended is not null and not is_told").count() == 1
    assert sorted(seconds(row) for row in presence_of(found).collect()) == [
        ("a/b", 1, 6),
        ("a/b", 8, 20),
        ("c", 21, None),
    ]
    silent = silent_in(presence_of(found), AT + timedelta(seconds=30)).collect()
    assert [(row.client, row.since.replace(tzinfo=UTC) - AT) for row in silent] == [("a/b", timedelta(seconds=20))]
    assert not silent_in(presence_of(found), AT + timedelta(seconds=20)).collect(), "it has just gone"


def test_a_real_dead_message_queue_is_read_and_left_as_it_is(spark: SparkSession, broker: GatewayProcess) -> None:
    broker.create_queue("given-up-on")
    broker.create_queue("dying", dead_msg_queue="given-up-on", respect_ttl_enabled=True)
    with BlockingClient(broker.flow_url) as client, client.publisher() as publisher:
        publisher.send_all(Message(b"late", queue="dying", ttl_ms=1) for _ in range(3))
    wait_until(lambda: broker.held_count("given-up-on") == 3, within_s=60, what="the messages are dead")
    found = dmq(spark, DmqJob(source={"url": broker.flow_url, "queue": "given-up-on"}))
    assert [(each.queue, each.reason, each.count) for each in found.groups] == [("dying", "expired", 3)]
    assert [step.do for step in found.plan] == ["redrive"]
    assert broker.held_count("given-up-on") == 3


def test_who_was_connected_is_found_in_the_events_of_a_real_gateway(spark: SparkSession, tmp_path: Path) -> None:
    with gateway(tmp_path / "gateway", events__publish_client=True) as broker:
        broker.create_queue("who", subscriptions=["#LOG/*/CLIENT/>", "#LOG/*/SYSTEM/>"])
        with BlockingClient(broker.flow_url):
            pass
        wait_until(lambda: broker.held_count("who") >= 2, within_s=60, what="its coming and going is told")
        table = PresenceTable(path=str(tmp_path / "presence"), alert_after_s=3_600)
        found = presence(spark, PresenceJob(source={"url": broker.flow_url, "queue": "who"}, presence=table))
    assert found.is_clean
    assert found.clients_count == 1 + found.present_count, "one has gone; the job itself is there while it reads"
    stays = spark.read.parquet(table.path).where("ended is not null").collect()
    assert [row.began <= row.ended for row in stays] == [True]


def test_a_table_of_presence_takes_the_place_of_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    """Spark removes all that is in a folder before it writes a table there."""
    (tmp_path / "queue=orders").mkdir()
    (tmp_path / "_SUCCESS").touch()
    job = PresenceJob(source={"url": "flow://127.0.0.1:1", "queue": "who"}, presence=PresenceTable(path=str(tmp_path)))
    with pytest.raises(JobFailed, match="has queue=orders, and is written anew"):
        presence(spark, job)
