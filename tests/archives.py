"""Archives as the job `archive` writes them, made from what a test says."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

BEGAN: Final = datetime(2026, 3, 4, 23, 59, 58, tzinfo=UTC)  # a midnight comes in between
EVERY: Final = timedelta(milliseconds=3)
SCHEMA: Final = (
    "queue string, partition int, sequence long, topic string, received timestamp, partition_key string,"
    " correlation_id binary, payload binary, user_properties map<string, string>"
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
    user_properties: dict[str, str]


@dataclass(frozen=True)
class Archive:
    """What stands in an archive of a queue, in the order in which it arrived; places are made of the order."""

    queue: str
    messages: Sequence[tuple[str | None, str | None]]  # identity and key
    partition_count: int = 2

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
                user_properties={"number": str(number)},
            )
            made.append(row)
            next_sequence[partition] += 1
        return made


def write_archives(spark: SparkSession, folder: Path, *archives: Archive) -> str:
    """Write them under one path, and return it."""
    rows = [row for each in archives for row in each.rows()]
    placed = spark.createDataFrame(rows, SCHEMA).withColumns({"dt": fn.to_date("received"), "batch": fn.lit("0_0")})
    placed.coalesce(1).write.partitionBy("queue", "dt", "batch").parquet(str(folder / "archive"))
    return str(folder / "archive")


def numbered(count: int, keys: int = 5) -> list[tuple[str | None, str | None]]:
    """Return messages m0, m1 and so on, of keys k, kk and so on in turn."""
    return [(f"m{number}", "k" * (number % keys + 1)) for number in range(count)]
