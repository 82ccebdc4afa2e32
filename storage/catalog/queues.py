"""The rows of queues and of queue templates in the catalog: encoding and decoding.

A queue's row contains the slot map only when that differs from the hash modulo the number of partitions. The map is
very regular: compressed, it takes some hundred bytes, and some thousand for hundreds of partitions. During a rescale
the row contains both maps and the state of the rescale; its partition ids then include the retiring partitions. While a
queue moves to another broker the row contains that as well, at both; the old home has a row of its own afterwards.
"""

import base64
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from sluicegate.messaging.bulk.staging import STAGING_PARTITION_ID
from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.queues.assignment.slots import CUT_UNKNOWN, Rescale, modulo_slots
from sluicegate.messaging.queues.definition import QueueDefinition, definition_from_dict
from sluicegate.messaging.queues.moves import STAGES, MovedQueue, QueueMove
from sluicegate.messaging.queues.template import QueueTemplate, template_from_dict
from sluicegate.storage.errors import UnknownRow
from sluicegate.storage.interface import Table, TableWrite

QUEUE_ROW: Final = b"queue/"
MOVED_ROW: Final = b"moved-queue/"
TEMPLATE_ROW: Final = b"template/"
COUNTER_ROW: Final = b"counter/partition-id"
STAGING_ROW: Final = b"staging/partition-id"  # of a message VPN other than `default`


@dataclass(frozen=True, slots=True)
class StoredQueue:
    """A queue as the catalog stores it."""

    definition: QueueDefinition
    kind: str
    partition_ids: list[int]  # by number
    slots: bytes | None  # None: the hash modulo the number of partitions
    rescale: Rescale | None  # a rescale in progress
    definition_lost: bool = False  # the broker chose this definition, until an operator decides
    move: QueueMove | None = None  # to or from another broker, in progress

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.definition.config.name


def stored_queues(catalog: Mapping[bytes, bytes]) -> Iterator[StoredQueue]:
    """Yield every queue in the catalog. Raises UnknownRow for a row of a release with other attributes."""
    for key, value in catalog.items():
        if key.startswith(QUEUE_ROW):
            try:
                queue = _stored_queue(value)
            except (ValueError, KeyError, TypeError) as problem:
                name = key.removeprefix(QUEUE_ROW).decode(errors="backslashreplace")
                raise UnknownRow(f"queue {name!r}", problem) from None
            yield queue


def _stored_queue(value: bytes) -> StoredQueue:
    row = orjson.loads(value)
    definition = definition_from_dict(row["definition"], reserved_name=True)
    slots, rescale = layout_in(row)
    is_lost = bool(row.get("definition_lost", False))
    move = _move(row["move"]) if "move" in row else None
    return StoredQueue(definition, row["kind"], row["partition_ids"], slots, rescale, is_lost, move)


def _move(row: Mapping[str, Any]) -> QueueMove:
    if row["stage"] not in STAGES:
        raise ValueError(f"a move in stage {row['stage']!r}")
    return QueueMove(row["stage"], row["broker"], int(row["begun_ms"]), row.get("session", ""))


def queue_row(stored: StoredQueue) -> TableWrite:
    """Return the row to write for a queue."""
    row: dict[str, object] = {
        "definition": stored.definition.to_dict(),
        "kind": stored.kind,
        "partition_ids": stored.partition_ids,
        **layout_of(stored),
    }
    if stored.definition_lost:
        row["definition_lost"] = True
    if stored.move is not None:
        row["move"] = {name: value for name, value in stored.move._asdict().items() if name != "session" or value}
    return TableWrite(Table.CATALOG, QUEUE_ROW + stored.name.encode(), orjson.dumps(row))


def layout_of(stored: StoredQueue) -> dict[str, object]:
    """Return the fields of a row that assign slots to partitions; none for the hash modulo."""
    fields: dict[str, object] = {}
    if stored.slots is not None:
        fields["slots"] = _packed(stored.slots)
    rescale = stored.rescale
    if rescale is not None:
        fields["rescale"] = {
            "count_before": rescale.count_before,
            "count": rescale.count,
            "slots_before": _packed(rescale.slots_before),
            "cuts": [[number, cut] for number, cut in rescale.cuts.items() if cut != CUT_UNKNOWN],
        }
    return fields


def layout_in(row: Mapping[str, Any]) -> tuple[bytes | None, Rescale | None]:
    """Return what `layout_of` wrote: the slot map, and a rescale in progress."""
    slots = _unpacked(row["slots"]) if "slots" in row else None
    return slots, _rescale(row["rescale"], slots) if "rescale" in row else None


def queue_row_deleted(name: str) -> TableWrite:
    """Return the write that deletes a queue's row."""
    return TableWrite(Table.CATALOG, QUEUE_ROW + name.encode(), None)


def moved_queues(catalog: Mapping[bytes, bytes]) -> Iterator[MovedQueue]:
    """Yield every queue that was moved away, and that not all brokers know of. Raises UnknownRow as above."""
    for key, value in catalog.items():
        if key.startswith(MOVED_ROW):
            name = key.removeprefix(MOVED_ROW).decode(errors="backslashreplace")
            try:
                row = orjson.loads(value)
                filters = tuple((str(text), str(syntax)) for text, syntax in row["filters"])
                yield MovedQueue(name, str(row["broker"]), filters)
            except (ValueError, KeyError, TypeError) as problem:
                raise UnknownRow(f"moved queue {name!r}", problem) from None


def moved_row(moved: MovedQueue) -> TableWrite:
    """Return the row of a queue that was moved away."""
    value = orjson.dumps({"broker": moved.broker, "filters": moved.filters})
    return TableWrite(Table.CATALOG, MOVED_ROW + moved.name.encode(), value)


def moved_row_deleted(name: str) -> TableWrite:
    """Return the write that deletes it: every broker knows."""
    return TableWrite(Table.CATALOG, MOVED_ROW + name.encode(), None)


def stored_templates(catalog: Mapping[bytes, bytes]) -> Iterator[QueueTemplate]:
    """Yield every queue template in the catalog. Raises UnknownRow for one that this release cannot read."""
    for key, value in catalog.items():
        if key.startswith(TEMPLATE_ROW):
            try:
                template = template_from_dict(orjson.loads(value))
            except ValueError as problem:
                name = key.removeprefix(TEMPLATE_ROW).decode(errors="backslashreplace")
                raise UnknownRow(f"queue template {name!r}", problem) from None
            yield template


def template_row(name: str, template: QueueTemplate | None) -> TableWrite:
    """Return the row that stores a template, or with None the one that deletes it."""
    value = None if template is None else orjson.dumps(template.to_dict())
    return TableWrite(Table.CATALOG, TEMPLATE_ROW + name.encode(), value)


class PartitionIds:
    """Allocates partition ids for all message VPNs. An id is never reused."""

    def __init__(self, catalog: Mapping[bytes, bytes], used: Iterable[int]) -> None:
        """`used` are the ids with data in the store: the allocator's own row may be unreadable."""
        self.next_id = max([int(catalog.get(COUNTER_ROW, b"1")), *[each + 1 for each in used]])

    def take(self, count: int) -> list[int]:
        """Allocate ids. The caller writes `row` in the commit that uses them."""
        ids = list(range(self.next_id, self.next_id + count))
        self.next_id += count
        return ids

    def row(self) -> TableWrite:
        """Return the row that prevents a reuse of the ids taken so far."""
        return TableWrite(Table.CATALOG, COUNTER_ROW, str(self.next_id).encode())


def staging_partition_id(vpn: str, catalog: Mapping[bytes, bytes]) -> int | None:
    """Return the partition in which a message VPN stages transactions, None before it has one."""
    if vpn == DEFAULT_VPN:
        return STAGING_PARTITION_ID
    known = catalog.get(STAGING_ROW)
    return None if known is None else int(known)


def staging_row(partition_id: int) -> TableWrite:
    """Return the row that keeps a message VPN's partition for staged transactions."""
    return TableWrite(Table.CATALOG, STAGING_ROW, str(partition_id).encode())


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
