"""The rows that the program `copy_until_killed` copies, and a check that each has arrived once."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
from deltalake import DeltaTable

from sluicegate import BlockingClient, Column, Message
from sluicegate.pipeline.configuration import DELTA, PARQUET
from support.processes.gateway import GatewayProcess, gateway

ROWS: Final = 1_000
PAYLOAD_BYTES: Final = 200
KEYS: Final = 20


@contextmanager
def gateway_with_rows(folder: Path) -> Iterator[GatewayProcess]:
    """Run a gateway for the length of a `with` block, with the rows in the queue `from`, and an empty queue `to`.

    The cursors of the two that read beside the consumer are there, for that may be the first to take something away.
    """
    with gateway(folder) as process:
        for name in ("from", "to"):
            process.create_queue(name, access_type="non-exclusive", partition_count=2)
        with BlockingClient(process.flow_url) as client, client.publisher() as publisher:
            publisher.send_all(
                Message(str(n).encode().ljust(PAYLOAD_BYTES), queue="from", key=f"k{n % KEYS}") for n in range(ROWS)
            )
            for cursor in (PARQUET, DELTA):
                client.bulk.bind_cursor("from", cursor).unbind()
        yield process


def everything_is_there_once(broker: GatewayProcess, folder: Path) -> None:
    """Assert that each row is in the queue `to` once, in order for its key, and once in the files and in the table.

    Files and table are read by readers that know nothing of Spark's logs.
    """
    every = Counter(range(ROWS))
    queued = _in_queue(broker)
    assert Counter(queued) == every
    for table in (pq.read_table(folder / PARQUET, columns=["payload"]), DeltaTable(folder / DELTA).to_pyarrow_table()):
        assert Counter(int(payload) for payload in table["payload"].to_pylist()) == every
    by_key: dict[int, list[int]] = {}
    for number in queued:
        by_key.setdefault(number % KEYS, []).append(number)
    assert all(numbers == sorted(numbers) for numbers in by_key.values()), "in order for each key"
    assert broker.held_count("from") == 0, "all of it is acknowledged"


def _in_queue(broker: GatewayProcess) -> list[int]:
    """Return the numbers in the target, partition by partition in their order."""
    found: list[int] = []
    with BlockingClient(broker.flow_url) as client:
        for each in client.bulk.queue_status("to").positions:
            with client.bulk.read_range(
                "to", partition=each.partition, first=each.low, end=each.next_sequence, columns=Column.PAYLOAD
            ) as chunks:
                found += [int(payload) for chunk in chunks for payload in chunk.columns.values(Column.PAYLOAD)]
    return found
