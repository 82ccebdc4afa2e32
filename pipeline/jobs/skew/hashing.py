"""The gateway's hash of keys, over record batches of Spark. Tasks import it, so it imports little."""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from sluicegate.messaging.message.keys import key_hash

HASHED: Final = "hash int, messages bigint"  # what comes of a key and its messages, as Spark writes schemas


def with_hashes(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield batches with the hash in place of the key, which is the first of two columns."""
    for batch in batches:
        hashes = pa.array([key_hash(key) for key in batch.column(0).to_pylist()], pa.int32())
        yield pa.RecordBatch.from_arrays([hashes, batch.column(1)], names=["hash", "messages"])
