"""Spark reads queues of a real gateway, and publishes to them: as batches and as streams."""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_sluicegate.options import SourceOptions
from pyspark_sluicegate.reading.acknowledging import Acknowledger, sweep
from sluicegate import BlockingClient, Message
from support.processes.gateway import GatewayProcess

pytestmark = pytest.mark.slow

DONE_S = 90


def publish(broker: GatewayProcess, messages: Iterable[Message]) -> None:
    with BlockingClient(broker.flow_url) as client, client.publisher() as publisher:
        publisher.send_all(messages)


def fill(broker: GatewayProcess, queue: str, first: int, end: int, *, keys: int = 20) -> None:
    publish(broker, [Message(str(n).encode(), queue=queue, key=f"k{n % keys}") for n in range(first, end)])


def options(broker: GatewayProcess, queue: str, **more: str) -> dict[str, str]:
    return {"url": broker.flow_url, "queue": queue, **more}


def read(spark: SparkSession, given: dict[str, str]) -> DataFrame:
    return spark.read.format("sluicegate").options(**given).load()


def available(spark: SparkSession, given: dict[str, str], folder: str, checkpoint: str) -> StreamingQuery:
    """Append what is there to Parquet files, and end."""
    frame = spark.readStream.format("sluicegate").options(**given).load()
    query = (
        frame.writeStream.format("parquet")
        .option("path", folder)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(DONE_S), "the query ends by itself"
    return query


def numbers(frame: DataFrame) -> list[int]:
    return sorted(int(bytes(row.payload)) for row in frame.select("payload").collect())


def cursor_of(broker: GatewayProcess, queue: str, name: str = "spark") -> dict[int, int]:
    with BlockingClient(broker.flow_url) as client:
        return {each.partition: each.acked for each in client.bulk.look_at_cursor(queue, name).positions}


def test_a_batch_has_every_message_with_what_its_sender_said(spark: SparkSession, broker: GatewayProcess) -> None:
    broker.create_queue("whole")
    sent = datetime(2026, 3, 4, 5, 6, 7, 890_000, tzinfo=UTC)
    publish(
        broker,
        [
            Message(
                b'{"t": 21.5}',
                queue="whole",
                key="plant-7",
                priority=7,
                content_type="application/json",
                properties=[("site", "berlin"), ("floor", 3)],
                correlation=b"c-1",
                timestamp_ms=int(sent.timestamp() * 1000),
            ),
            Message(b"plain", queue="whole"),
        ],
    )
    rows = read(spark, options(broker, "whole")).orderBy("sequence").collect()
    first, second = rows[0].asDict(), rows[1].asDict()
    assert (first["queue"], first["partition"], first["sequence"]) == ("whole", 0, 1)
    assert (bytes(first["payload"]), first["partition_key"], first["priority"]) == (b'{"t": 21.5}', "plant-7", 7)
    assert (first["content_type"], bytes(first["correlation_id"])) == ("application/json", b"c-1")
    assert first["user_properties"] == {"site": "berlin", "floor": "3"}
    assert second["partition_key"] is None
    assert second["user_properties"] == {}
    assert (second["priority"], second["timestamp"], second["expiry"]) == (4, None, None)
    times = read(spark, options(broker, "whole")).select(fn.date_format("timestamp", "yyyy-MM-dd HH:mm:ss.SSS"))
    assert "2026-03-04 05:06:07.890" in [row[0] for row in times.collect()]


def test_a_batch_takes_nothing_and_filters_reach_the_gateway(spark: SparkSession, broker: GatewayProcess) -> None:
    broker.create_queue("parts", access_type="non-exclusive", partition_count=4)
    fill(broker, "parts", 0, 2_000)
    whole = read(spark, options(broker, "parts", columns="partition,sequence,payload", splitRows="150"))
    assert numbers(whole) == list(range(2_000))
    by_partition = Counter(row.partition for row in whole.collect())
    given = options(broker, "parts", columns="partition,sequence,payload", pushdown="true")
    some = read(spark, given).where("partition = 1 and sequence > 5 and sequence <= 25")
    assert some.count() == 20
    assert some.rdd.getNumPartitions() == 1, "only what is wanted is planned"
    assert by_partition[1] > 25
    assert broker.held_count("parts") == 2_000


def test_a_stream_reads_each_message_once_in_order_of_its_partition(
    spark: SparkSession, broker: GatewayProcess, tmp_path_factory: pytest.TempPathFactory, checkpoint: str
) -> None:
    broker.create_queue("stream", access_type="non-exclusive", partition_count=3)
    folder = str(tmp_path_factory.mktemp("rows"))
    given = options(broker, "stream", columns="partition,sequence,partition_key,payload", maxRowsPerTrigger="400")
    for first in (0, 1_000):
        fill(broker, "stream", first, first + 1_000)
        query = available(spark, given, folder, checkpoint)
        assert all(progress.numInputRows <= 400 for progress in query.recentProgress)
    rows = spark.read.parquet(folder)
    assert numbers(rows) == list(range(2_000))
    by_key: dict[str, list[int]] = {}
    for row in rows.orderBy("partition", "sequence").collect():
        by_key.setdefault(row.partition_key, []).append(int(bytes(row.payload)))
    assert all(found == sorted(found) for found in by_key.values())
    assert broker.held_count("stream") == 2_000, "a tap takes nothing"


def test_a_consuming_stream_that_is_acknowledged_leaves_nothing(
    spark: SparkSession, broker: GatewayProcess, tmp_path_factory: pytest.TempPathFactory, checkpoint: str
) -> None:
    broker.create_queue("drained", access_type="non-exclusive", partition_count=2)
    fill(broker, "drained", 0, 500)
    given = options(broker, "drained", mode="consume", maxRowsPerTrigger="200")
    connect = SourceOptions.of(given).connect
    listener = Acknowledger(connect)
    spark.streams.addListener(listener)
    try:
        folder = str(tmp_path_factory.mktemp("rows"))
        available(spark, given, folder, checkpoint)
    finally:
        spark.streams.removeListener(listener)
    sweep(connect, checkpoint)  # events may be late; the sweep never is
    assert numbers(spark.read.parquet(folder)) == list(range(500))
    assert broker.held_count("drained") == 0
    assert listener.failed_count == 0


def test_a_stream_acknowledges_its_last_batch_when_it_looks_for_another(
    spark: SparkSession, broker: GatewayProcess, tmp_path_factory: pytest.TempPathFactory, checkpoint: str
) -> None:
    broker.create_queue("looked")
    fill(broker, "looked", 0, 300)
    given = options(broker, "looked", maxRowsPerTrigger="100")
    available(spark, given, str(tmp_path_factory.mktemp("rows")), checkpoint)
    assert cursor_of(broker, "looked") == {0: 301}


def test_the_sweep_acknowledges_what_a_checkpoint_says_is_through(
    spark: SparkSession, broker: GatewayProcess, tmp_path_factory: pytest.TempPathFactory, checkpoint: str
) -> None:
    """The query ends with its only batch, without looking for another."""
    broker.create_queue("swept")
    fill(broker, "swept", 0, 300)
    given = options(broker, "swept")
    frame = spark.readStream.format("sluicegate").options(**given).load()
    writer = frame.writeStream.format("parquet").option("path", str(tmp_path_factory.mktemp("rows")))
    query = writer.option("checkpointLocation", checkpoint).trigger(once=True).start()
    assert query.awaitTermination(DONE_S)
    assert cursor_of(broker, "swept") == {0: 1}
    connect = SourceOptions.of(given).connect
    assert sweep(connect, checkpoint) == 1
    assert cursor_of(broker, "swept") == {0: 301}
    assert sweep(connect, checkpoint) == 0


def test_rows_published_by_a_batch_are_all_there_once_however_often_it_runs(
    spark: SparkSession, broker: GatewayProcess
) -> None:
    broker.create_queue("out", access_type="non-exclusive", partition_count=2)
    frame = spark.range(1_000).select(
        fn.col("id").cast("string").cast("binary").alias("payload"),
        fn.concat(fn.lit("k"), fn.col("id") % 10).alias("partition_key"),
        fn.create_map(fn.lit("origin"), fn.lit("spark")).alias("user_properties"),
    )
    for _ in range(2):
        frame.write.format("sluicegate").mode("append").options(**options(broker, "out", txn="job-1/1")).save()
    found = read(spark, options(broker, "out"))
    assert numbers(found) == list(range(1_000))
    row: Any = found.first()
    assert row.user_properties == {"origin": "spark"}
    assert row.partition_key.startswith("k")


def test_a_row_that_is_refused_fails_the_batch_or_is_left_out(spark: SparkSession, broker: GatewayProcess) -> None:
    broker.create_queue("there")
    frame = spark.createDataFrame([("there", b"1"), ("nowhere", b"2")], "queue string, payload binary").coalesce(1)
    given = {"url": broker.flow_url}
    with pytest.raises(Exception, match="nowhere"):
        frame.write.format("sluicegate").mode("append").options(**given).save()
    assert broker.held_count("there") == 0, "nothing of it is visible"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"queue": "no-such-queue"}, "no-such-queue"),
        ({"queue": "parts", "columns": "colour"}, "no column colour"),
        ({"queue": "parts", "quue": "x"}, "no option quue"),
        ({"queue": "parts", "url": "flow://127.0.0.1:1", "retryMs": "1"}, "127.0.0.1:1"),
    ],
)
def test_errors_are_named_in_the_last_line(
    spark: SparkSession, broker: GatewayProcess, given: dict[str, str], said: str
) -> None:
    with pytest.raises(Exception, match=said):
        read(spark, {"url": broker.flow_url, **given}).collect()
