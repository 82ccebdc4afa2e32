"""The stream source at a broker whose neighbor has the queue. No session of Spark is needed for that."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from pyspark_sluicegate.options import SourceOptions
from pyspark_sluicegate.reading.stream import QueueStreamReader
from pyspark_sluicegate.reading.tasks import RangeReader
from sluicegate import BlockingClient, Message
from support.http.plain import HTTP
from support.processes.gateway import GatewayProcess, wait_until

SCHEMA = to_arrow_schema(
    StructType([StructField("payload", BinaryType()), StructField("sequence", LongType())]), timezone="UTC"
)
EVERYTHING = ReadAllAvailable()
MAY_LINK: dict[str, object] = {
    "authentication.client_profiles.0.name": "default",
    "authentication.client_profiles.0.allow_bridge_connections_enabled": True,
}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[GatewayProcess]:
    """The broker b, with the queue."""
    with GatewayProcess(tmp_path / "b", {"node.name": "b", "links.a.url": "", **MAY_LINK}) as process:
        process.create_queue("orders", access_type="non-exclusive", partition_count=2)
        yield process


@pytest.fixture
def broker(tmp_path: Path, home: GatewayProcess) -> Iterator[GatewayProcess]:
    """The broker a, linked to b."""
    link = {"links.b.url": f"flow://127.0.0.1:{home.ports['flow']}"}
    with GatewayProcess(tmp_path / "a", {"node.name": "a", **link, **MAY_LINK}) as process:
        wait_until(
            lambda: HTTP.get(f"{process.admin_url}/queues/orders").status_code == 200, within_s=30, what="a knows it"
        )
        yield process


def fill(broker: GatewayProcess, first: int, end: int) -> None:
    with BlockingClient(broker.flow_url) as client, client.publisher() as publisher:
        publisher.send_all(Message(str(n).encode(), queue="orders", key=str(n % 7)) for n in range(first, end))


def accepted_total(broker: GatewayProcess) -> int:
    count: int = HTTP.get(f"{broker.admin_url}/queues/orders").json()["accepted_total"]
    return count


def options(broker: GatewayProcess, **more: str) -> SourceOptions:
    given = {"url": broker.flow_url, "queue": "orders", "columns": "payload,sequence", "longPollMs": "1"}
    return SourceOptions.of(given | {"chunkBytes": "65536"} | more)


def stream(broker: GatewayProcess) -> QueueStreamReader:
    given = options(broker)
    return QueueStreamReader(given, RangeReader(given, SCHEMA))


def payloads(batches: Iterator[Any]) -> list[int]:
    return [int(payload) for batch in batches for payload in batch.column("payload").to_pylist()]


def rows(reader: QueueStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    return sorted(number for task in reader.partitions(start, end) for number in payloads(reader.read(task)))


def test_a_stream_begins_at_one_broker_and_goes_on_at_the_other(broker: GatewayProcess, home: GatewayProcess) -> None:
    """With one checkpoint: incarnation, message VPN and epoch are those of the queue's broker."""
    fill(home, 0, 3_000)
    first = stream(broker)
    start = first.initialOffset()
    end = first.latestOffset(start, EVERYTHING)
    assert rows(first, start, end) == list(range(3_000))
    fill(broker, 3_000, 3_100)  # confirmed when the link's queue has them
    wait_until(lambda: accepted_total(home) == 3_100, within_s=60, what="b has all messages")
    after = first.latestOffset(end, EVERYTHING)
    assert rows(first, end, after) == list(range(3_000, 3_100))
    with BlockingClient(home.flow_url) as client:
        acked = {each.partition: each.acked for each in client.bulk.look_at_cursor("orders", "spark").positions}
    assert {str(number): acked[number] for number in acked} == end["next"], "the batch before is acknowledged"

    second = stream(home)
    assert rows(second, end, after) == list(range(3_000, 3_100))
    assert {**second.latestOffset(after, EVERYTHING), "epoch": after["epoch"]} == after


def test_what_a_job_reports_of_a_batch_is_counted_where_its_cursor_is(
    broker: GatewayProcess, home: GatewayProcess
) -> None:
    fill(home, 0, 10)
    reader = stream(broker)
    reader.initialOffset()
    batch = {"job": "archive", "reference": "q/0", "rows_count": 10, "undecodable_count": 0, "duration_ms": 5}
    for _ in range(2):  # a repeated one counts once
        answer = HTTP.put(f"{broker.admin_url}/queues/orders/cursors/spark/batch", json=batch)
        assert answer.status_code == 204, answer.text
    wrong = HTTP.put(f"{broker.admin_url}/queues/orders/cursors/other/batch", json=batch)
    assert (wrong.status_code, "no cursor 'other'" in wrong.text) == (409, True)
    lines = HTTP.get(f"{home.admin_url}/metrics").text.splitlines()
    (told,) = [each for each in lines if each.startswith("sluicegate_reader_batches_total{")]
    assert ('cursor="spark"' in told, 'job="archive"' in told, told.rpartition(" ")[2]) == (True, True, "1.0")
    commands = HTTP.get(f"{home.admin_url}/events").json()["events"]
    assert not any("add_batch" in each["text"] for each in commands), "it is no command of an operator"
