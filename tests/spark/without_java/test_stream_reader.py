"""The stream source as Spark calls it, method by method, over a real gateway: no session is needed for that."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, StructField, StructType

from pyspark_sluicegate.options import SourceOptions
from pyspark_sluicegate.reading.offsets import OffsetError
from pyspark_sluicegate.reading.stream import QueueStreamReader
from pyspark_sluicegate.reading.tasks import RangeReader
from sluicegate import BlockingClient, Message
from support.http.plain import HTTP
from support.processes.gateway import GatewayProcess, gateway, wait_until

SCHEMA = to_arrow_schema(StructType([StructField("payload", BinaryType())]), timezone="UTC")
EVERYTHING = ReadAllAvailable()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[GatewayProcess]:
    """A gateway of the test's own, for it may be killed; with a queue of a hundred messages."""
    with gateway(tmp_path / "gateway", vpns__sales__enabled=True) as process:
        process.create_queue("orders")
        fill(process, 0, 100)
        yield process


def fill(broker: GatewayProcess, first: int, end: int, queue: str = "orders") -> None:
    with BlockingClient(broker.flow_url) as client, client.publisher() as publisher:
        publisher.send_all(Message(str(n).encode(), queue=queue) for n in range(first, end))


def reader_of(broker: GatewayProcess, **more: str) -> QueueStreamReader:
    """What a driver that has just been started has, but for a connection: a process keeps those."""
    given = {"url": broker.flow_url, "queue": "orders", "columns": "payload", "longPollMs": "1", "retryMs": "120000"}
    options = SourceOptions.of(given | more)
    return QueueStreamReader(options, RangeReader(options, SCHEMA))


def rows(reader: QueueStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    """Run a batch's tasks."""
    return [number for task in reader.partitions(start, end) for number in payloads(reader.read(task))]


def payloads(batches: Iterator[Any]) -> list[int]:
    return [int(payload) for batch in batches for payload in batch.column("payload").to_pylist()]


def acked(broker: GatewayProcess) -> int:
    with BlockingClient(broker.flow_url) as client:
        return client.bulk.look_at_cursor("orders", "spark").positions[0].acked


def test_a_batch_that_a_new_driver_repeats_is_acknowledged_under_its_own_binding(broker: GatewayProcess) -> None:
    """Though nothing comes after it, and its offset names the binding of the driver that died."""
    first = reader_of(broker)
    start = first.initialOffset()
    end = first.latestOffset(start, EVERYTHING)
    assert rows(first, start, end) == list(range(100))
    assert acked(broker) == 1, "it may be planned again"

    second = reader_of(broker)
    assert rows(second, start, end) == list(range(100))
    assert acked(broker) == 1
    assert second.latestOffset(end, EVERYTHING) == end, "there is nothing new"
    assert acked(broker) == 101


def test_a_reader_plans_and_reads_on_when_the_gateway_was_killed(broker: GatewayProcess) -> None:
    """Under the binding of before: one that was fenced would end the query."""
    reader = reader_of(broker)
    start = reader.initialOffset()
    end = reader.latestOffset(start, EVERYTHING)
    (task,) = reader.partitions(start, end)
    broker.kill9()
    broker.start()
    assert payloads(reader.read(task)) == list(range(100))
    fill(broker, 100, 120)
    after = reader.latestOffset(end, EVERYTHING)
    assert rows(reader, end, after) == list(range(100, 120))
    assert after["epoch"] == end["epoch"]


def test_a_checkpoint_is_not_gone_on_with_in_another_message_vpn(broker: GatewayProcess) -> None:
    """Its queue has the same name, and the spool one incarnation: messages would be passed over, and acknowledged."""
    broker.create_queue("orders", vpn="sales")
    first = reader_of(broker)
    start = first.initialOffset()
    end = first.latestOffset(start, EVERYTHING)
    other = reader_of(broker, vpn="sales")
    assert other.initialOffset()["vpn"] == "sales"
    with pytest.raises(OffsetError, match="orders in the message VPN default, not in sales"):
        other.latestOffset(end, EVERYTHING)
    assert first.latestOffset(end, EVERYTHING) == end


def give_partitions(broker: GatewayProcess, queue: str, count: int) -> None:
    """Change their number, as an operator does: nothing may be kept for readers, nor wait for consumers."""
    with BlockingClient(broker.flow_url) as client:
        client.bulk.delete_cursor(queue, "spark")
    url = f"{broker.admin_url}/queues/{queue}"
    HTTP.post(f"{url}/purge").raise_for_status()
    HTTP.patch(url, json={"partition_count": count}).raise_for_status()
    wait_until(
        lambda: broker.queue(queue)["partition_operational_count"] == count, within_s=30, what="the number has changed"
    )


def test_a_query_goes_on_when_its_queue_had_fewer_partitions_for_a_time(broker: GatewayProcess) -> None:
    """Decision 0021: those that come anew have the numbers of those that went, and their sequences begin with 1."""
    broker.create_queue("plant", access_type="non-exclusive", partition_count=3)
    fill(broker, 0, 300, "plant")
    first = reader_of(broker, queue="plant")
    start = first.initialOffset()
    end = first.latestOffset(start, EVERYTHING)
    assert sorted(rows(first, start, end)) == list(range(300))

    give_partitions(broker, "plant", 1)
    assert reader_of(broker, queue="plant").latestOffset(end, EVERYTHING) == end, "there is nothing new"

    give_partitions(broker, "plant", 3)
    fill(broker, 300, 420, "plant")
    again = reader_of(broker, queue="plant")
    after = again.latestOffset(end, EVERYTHING)
    assert sorted(rows(again, end, after)) == list(range(300, 420))
    assert again.latestOffset(after, EVERYTHING) == after
    with BlockingClient(broker.flow_url) as client:
        stands = client.bulk.look_at_cursor("plant", "spark").positions
    assert {str(each.partition): each.acked for each in stands} == after["next"]


def test_a_reader_that_begins_while_the_gateway_is_away_waits_for_it(broker: GatewayProcess) -> None:
    broker.kill9()
    with ThreadPoolExecutor(1) as driver:
        asked = driver.submit(reader_of(broker).initialOffset)
        broker.start()
        assert asked.result()["next"] == {"0": 1}


@pytest.mark.parametrize("limit", [{"maxBytesPerTrigger": "1000000"}, {"maxRowsPerTrigger": "150"}])
def test_sequences_that_a_crash_skipped_are_passed_over_and_no_batch_is_empty(
    broker: GatewayProcess, limit: dict[str, str]
) -> None:
    """docs/data/bulk.md, gaps: never_used. A limit counts messages; only when nothing else is left is a batch empty."""
    reader = reader_of(broker, **limit)
    start = reader.initialOffset()
    broker.kill9()
    broker.start()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert rows(reader, start, end) == list(range(100))
    passed = reader.latestOffset(end, reader.getDefaultReadLimit())
    assert rows(reader, end, passed) == []
    assert reader.latestOffset(passed, reader.getDefaultReadLimit()) == passed

    fill(broker, 100, 120)
    broker.kill9()
    broker.start()
    fill(broker, 120, 200)
    after = reader.latestOffset(passed, reader.getDefaultReadLimit())
    assert rows(reader, passed, after) == list(range(100, 200))
