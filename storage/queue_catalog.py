"""A queue's row in the catalog: how it is written, and how it is read back.

The slot map stands in it only when it is not the hash modulo the number of partitions. It is very regular: compressed
it takes some hundred bytes, and some thousand for hundreds of partitions. While the number of partitions changes both
maps stand there, with what the change still needs; partition ids then include those that retire.
"""

import base64
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import orjson

from messaging.queue_config import QueueDefinition, definition_from_dict
from messaging.rescale import CUT_UNKNOWN, Rescale
from messaging.slots import modulo_slots
from storage.interface import Table, TableWrite

QUEUE_ROW: Final = b"queue/"
COUNTER_ROW: Final = b"counter/partition-id"


@dataclass(frozen=True, slots=True)
class StoredQueue:
    """A queue as the catalog knows it."""

    definition: QueueDefinition
    kind: str
    partition_ids: list[int]  # by number
    slots: bytes | None  # None: the hash modulo the number of partitions
    rescale: Rescale | None  # a change that was under way

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.definition.config.name


def stored_queues(catalog: dict[bytes, bytes]) -> Iterator[StoredQueue]:
    """Yield every queue in the catalog."""
    for key, value in catalog.items():
        if key.startswith(QUEUE_ROW):
            row = orjson.loads(value)
            definition = definition_from_dict(row["definition"], reserved_name=True)
            slots = _unpacked(row["slots"]) if "slots" in row else None
            rescale = _rescale(row["rescale"], slots) if "rescale" in row else None
            yield StoredQueue(definition, row["kind"], row["partition_ids"], slots, rescale)


def queue_row(stored: StoredQueue) -> TableWrite:
    """Return the row to write for a queue."""
    row: dict[str, object] = {
        "definition": stored.definition.to_dict(),
        "kind": stored.kind,
        "partition_ids": stored.partition_ids,
    }
    if stored.slots is not None:
        row["slots"] = _packed(stored.slots)
    rescale = stored.rescale
    if rescale is not None:
        row["rescale"] = {
            "count_before": rescale.count_before,
            "count": rescale.count,
            "slots_before": _packed(rescale.slots_before),
            "cuts": [[number, cut] for number, cut in rescale.cuts.items() if cut != CUT_UNKNOWN],
        }
    return TableWrite(Table.CATALOG, QUEUE_ROW + stored.name.encode(), orjson.dumps(row))


def queue_row_deleted(name: str) -> TableWrite:
    """Return the write that deletes a queue's row."""
    return TableWrite(Table.CATALOG, QUEUE_ROW + name.encode(), None)


def counter_row(next_partition_id: int) -> TableWrite:
    """Return the row that keeps partition ids from being used twice."""
    return TableWrite(Table.CATALOG, COUNTER_ROW, str(next_partition_id).encode())


def _rescale(row: dict[str, object], slots: bytes | None) -> Rescale:
    count_before, count, packed, cuts = row["count_before"], row["count"], row["slots_before"], row["cuts"]
    assert isinstance(count_before, int), "rows are sealed: what is read is what was written"
    assert isinstance(count, int)
    assert isinstance(packed, str)
    assert isinstance(cuts, list)
    rescale = Rescale(
        count_before=count_before,
        count=count,
        slots_before=_unpacked(packed),
        slots=modulo_slots(count) if slots is None else slots,
    )
    for number, cut in cuts:
        rescale.take_cut(number, cut)
    return rescale


def _packed(slots: bytes) -> str:
    return base64.b64encode(zlib.compress(slots)).decode("ascii")


def _unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))
