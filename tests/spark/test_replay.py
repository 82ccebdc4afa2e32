"""The job `replay`: from an archive into queues of a real gateway, and the same again."""

from collections import defaultdict
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sluicegate import BlockingClient
from sluicegate.pipeline.archive.reader import Archived
from sluicegate.pipeline.failures import JobFailed
from sluicegate.pipeline.jobs.replay import REPLAY_OF, ReplayJob, ReplayTable, replay
from support.processes.gateway import GatewayProcess
from support.spark.archives import Archive, numbered, write_archives


def config(broker: GatewayProcess, path: str, **more: object) -> ReplayJob:
    target = {"url": broker.flow_url, "queue": "replayed"}
    archive = Archived(path=path, where=str(more.pop("where", "true")))
    table = {"id": "one", "archive": archive, "target": target, "chunk_rows": 40, **more}
    return ReplayJob(replay=ReplayTable.model_validate(table))


def test_a_replay_keeps_order_and_publishes_each_message_once_however_often_it_runs(
    spark: SparkSession, broker: GatewayProcess, tmp_path: Path
) -> None:
    broker.create_queue("replayed", access_type="non-exclusive", partition_count=2)
    sent = Archive("orders", numbered(100), partition_count=3)
    path = write_archives(tmp_path, sent)
    found = replay(spark, config(broker, path, dry_run=True))
    assert (found.row_count, found.key_count, found.chunk_count, found.is_dry_run) == (100, 5, 4, True)
    assert broker.held_count("replayed") == 0, "a dry run counts"
    for _ in range(2):
        replay(spark, config(broker, path, rows_per_s=1_000))
    given = {"url": broker.flow_url, "queue": "replayed"}
    rows = spark.read.format("sluicegate").options(**given).load().orderBy("partition", "sequence").collect()
    arrived = defaultdict(list)
    for row in rows:
        arrived[row.partition_key].append(bytes(row.payload).decode())
    expected = defaultdict(list)
    for identity, key in sent.messages:
        expected[key].append(identity)
    assert arrived == expected
    one = next(row for row in rows if bytes(row.payload) == b"m7")
    assert one.user_properties == {"number": "7", REPLAY_OF: "orders/0/2"}
    assert bytes(one.correlation_id) == b"m7"


def test_a_replay_that_would_be_cut_into_other_chunks_than_it_began_with_is_refused(
    spark: SparkSession, broker: GatewayProcess, tmp_path: Path
) -> None:
    """By their numbers the chunks of before would be others: some rows would come twice, and others never."""
    broker.create_queue("cut", max_msg_size=20)
    path = write_archives(tmp_path, Archive("orders", [*numbered(50), ("large" * 10, "kk")]))
    target = {"url": broker.flow_url, "queue": "cut"}
    with pytest.raises(PySparkException):
        replay(spark, config(broker, path, id="cut", target=target, chunk_rows=40))
    assert broker.held_count("cut") == 40, "the second chunk has a message that is too large"
    for changed in ({"chunk_rows": 10}, {"where": "sequence < 30"}):
        with pytest.raises(JobFailed, match=r"^replay.id: cut has begun with other chunks"):
            replay(spark, config(broker, path, id="cut", target=target, **{"chunk_rows": 40, **changed}))
    assert broker.held_count("cut") == 40
    assert broker.command("queue", "set", "cut", "max_msg_size=100").returncode == 0
    replay(spark, config(broker, path, id="cut", target=target, chunk_rows=40))
    assert broker.held_count("cut") == 51


def test_a_part_of_an_archive_goes_to_the_topics_that_it_had(
    spark: SparkSession, broker: GatewayProcess, tmp_path: Path
) -> None:
    broker.create_queue("by-topic", subscriptions=["t/kk"])
    path = write_archives(tmp_path, Archive("orders", numbered(100)))
    target = {"url": broker.flow_url}
    replay(spark, config(broker, path, id="two", target=target, where="partition_key = 'kk' and sequence > 10"))
    assert broker.held_count("by-topic") == 15


def test_properties_whose_names_repeat_are_replayed_as_they_were(
    spark: SparkSession, broker: GatewayProcess, tmp_path: Path
) -> None:
    """MQTT 5.0 3.3.2.3.7: the same name may appear more than once. So do the queues that a dead message died in."""
    broker.create_queue("repeated")
    properties = [("via", "a"), (REPLAY_OF, "x"), ("via", "b")]
    path = write_archives(tmp_path, Archive("orders", [("m", "k")], properties=properties))
    replay(spark, config(broker, path, id="repeated", target={"url": broker.flow_url, "queue": "repeated"}))
    with BlockingClient(broker.flow_url) as client, client.consumer("repeated") as consumer:
        delivery = consumer.receive(timeout_s=60)
    assert delivery.properties == [("number", "0"), ("via", "a"), ("via", "b"), (REPLAY_OF, "orders/1/1")]


def test_a_replay_of_nothing_is_a_mistake(spark: SparkSession, broker: GatewayProcess, tmp_path: Path) -> None:
    path = write_archives(tmp_path, Archive("orders", numbered(10)))
    with pytest.raises(JobFailed, match=r"^replay.archive: no message in .* where sequence > 100$"):
        replay(spark, config(broker, path, where="sequence > 100"))
