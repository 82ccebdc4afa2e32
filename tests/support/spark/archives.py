"""Archives as the job `archive` writes them, made from rows that a test gives."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

BEGAN: Final = datetime(2026, 3, 4, 23, 59, 58, tzinfo=UTC)  # a midnight comes in between
EVERY: Final = timedelta(milliseconds=3)
SCHEMA: Final = pa.schema(
    [
        ("queue", pa.string()),
        ("partition", pa.int32()),
        ("sequence", pa.int64()),
        ("topic", pa.string()),
        ("received", pa.timestamp("us", tz="UTC")),
        ("partition_key", pa.string()),
        ("correlation_id", pa.binary()),
        ("payload", pa.binary()),
        ("user_properties", pa.map_(pa.string(), pa.string())),
    ]
)


class ArchivedRow(NamedTuple):
    """A row, by SCHEMA."""

    queue: str
    partition: int
    sequence: int
    topic: str
    received: datetime
    partition_key: str | None
    correlation_id: bytes | None
    payload: bytes
    user_properties: list[tuple[str, str]]


@dataclass(frozen=True)
class Archive:
    """What stands in an archive of a queue, in the order in which it arrived; places are made of the order."""

    queue: str
    messages: Sequence[tuple[str | None, str | None]]  # identity and key
    partition_count: int = 2
    properties: Sequence[tuple[str, str]] = ()  # of each message, behind its number

    def rows(self) -> list[ArchivedRow]:
        """Return the rows."""
        next_sequence = [1] * self.partition_count
        made: list[ArchivedRow] = []
        for number, (identity, key) in enumerate(self.messages):
            partition = len(key or "") % self.partition_count
            name = None if identity is None else identity.encode()
            row = ArchivedRow(
                queue=self.queue,
                partition=partition,
                sequence=next_sequence[partition],
                topic=f"t/{key}",
                received=BEGAN + number * EVERY,
                partition_key=key,
                correlation_id=name,
                payload=name or b"",
                user_properties=[("number", str(number)), *self.properties],
            )
            made.append(row)
            next_sequence[partition] += 1
        return made

    def table(self) -> Any:
        """Return the rows as Arrow has them."""
        return pa.Table.from_pylist([row._asdict() for row in self.rows()], SCHEMA)


def write_archives(folder: Path, *archives: Archive) -> str:
    """Write them under one path, and return it."""
    table = pa.concat_tables(each.table() for each in archives)
    days = [at.date().isoformat() for at in table["received"].to_pylist()]
    placed = table.append_column("dt", pa.array(days, pa.string()))
    placed = placed.append_column("batch", pa.array(["0_0"] * len(days), pa.string()))
    pq.write_to_dataset(placed, str(folder / "archive"), partition_cols=["queue", "dt", "batch"])
    return str(folder / "archive")


def numbered(count: int, keys: int = 5) -> list[tuple[str | None, str | None]]:
    """Return messages m0, m1 and so on, of keys k, kk and so on in turn."""
    return [(f"m{number}", "k" * (number % keys + 1)) for number in range(count)]
