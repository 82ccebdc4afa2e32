"""The queue that each partition belongs to, stored apart from the definitions so that a lost definition is survived.

Each durable partition has a row with its queue, the queue's kind, and the partition's number in it. The commit that
writes or deletes the queue's row in the catalog also writes or deletes these rows. Owner rows without a definition
prove that the queue existed, and its partitions can be reassembled. The row of a queue's first partition also stores
the other facts its messages depend on: the slot map, a rescale in progress, and the retention.

A partition that holds messages but has no owner row has an unknown queue name: it becomes a queue of its own.

See also: the definition such a queue gets (messaging.queues.definition), and how it is served (actors).
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import orjson

from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.partitions.recovery import StoredPartition
from sluicegate.messaging.queues.definition import RECOVERED_PREFIX, is_named, shut_definition
from sluicegate.storage.catalog.queues import (
    QUEUE_ROW,
    STAGING_ROW,
    PartitionIds,
    StoredQueue,
    layout_in,
    layout_of,
    staging_partition_id,
)
from sluicegate.storage.catalog.recovered import StoredVpn
from sluicegate.storage.interface import Table, TableWrite

OWNER_ROW: Final = b"partition/"
STAGING: Final = "staging"  # in place of a kind: transactions are staged in the partition
UNKNOWN_KIND: Final = "named"  # of a queue whose name is lost: operators must find it, and clients may


@dataclass(frozen=True, slots=True)
class Owner:
    """The content of one owner row."""

    queue: str
    kind: str
    number: int
    total: int  # partitions of the queue, retiring ones included
    partition_count: int  # as the definition had it
    row: Mapping[str, Any]


def owner_rows(stored: StoredQueue, *, first_only: bool = False) -> list[TableWrite]:
    """Return the rows of a queue's partitions, or with `first_only` the one that depends on its definition."""
    ids = stored.partition_ids[:1] if first_only else stored.partition_ids
    return [_owner_row(stored, number, partition_id) for number, partition_id in enumerate(ids)]


def owner_rows_deleted(partition_ids: Iterable[int]) -> list[TableWrite]:
    """Return the writes that delete the rows of partitions."""
    return [TableWrite(Table.OWNERS, _key(partition_id), None) for partition_id in partition_ids]


def staging_owner_row(partition_id: int) -> TableWrite:
    """Return the row of a partition in which transactions are staged."""
    return TableWrite(Table.OWNERS, _key(partition_id), orjson.dumps({"kind": STAGING}))


def missing_rows(stored: StoredQueue, present: Mapping[bytes, bytes]) -> list[TableWrite]:
    """Return the rows of a queue's partitions that are missing or differ."""
    return [row for row in owner_rows(stored) if present.get(row.key) != row.value]


def owned_partition(key: bytes) -> int:
    """Return the partition whose row has this key, in any message VPN."""
    return int(key.rpartition(OWNER_ROW)[2])


def find_lost(vpns: Mapping[str, StoredVpn], partitions: Mapping[int, StoredPartition]) -> PartitionIds:
    """Record in each message VPN the queues whose definitions are lost. Return the allocator of partition ids.

    Partitions without an owner are recorded in the VPN `default`. A row of another release raises an error in its next
    reader; until then, nothing that this row may own counts as lost.
    """
    owners = {name: _owners(vpn) for name, vpn in vpns.items()}
    known = {partition_id for by_id in owners.values() for partition_id in by_id}
    ids = PartitionIds(vpns[DEFAULT_VPN].catalog, [*partitions, *known])
    for name, vpn in vpns.items():
        _restore_staging(vpn, owners[name])
    orphans = {each for each, stored in partitions.items() if stored.is_registered and each not in known}
    orphans -= {staging_partition_id(name, vpn.catalog) or 0 for name, vpn in vpns.items()}
    if orphans:
        orphans -= _defined(vpns, partitions)
    for name, vpn in vpns.items():
        _find_by_owners(vpn, owners[name], orphans, ids)
    for partition_id in sorted(orphans):
        if partitions[partition_id].has_messages():
            definition = shut_definition(f"{RECOVERED_PREFIX}{partition_id}")
            lost = StoredQueue(definition, UNKNOWN_KIND, [partition_id], None, None, definition_lost=True)
            vpns[DEFAULT_VPN].lost.append(lost)
    return ids


def _owner_row(stored: StoredQueue, number: int, partition_id: int) -> TableWrite:
    config = stored.definition.config
    row: dict[str, object] = {
        "queue": stored.name,
        "kind": stored.kind,
        "number": number,
        "of": len(stored.partition_ids),
        "partition_count": config.partition_count,
    }
    if config.owner and not is_named(stored.name):
        row["owner"] = config.owner  # the only client that may receive the messages of the subscription
    if number == 0:
        row |= layout_of(stored)
        for name in ("retention_time_s", "retention_size_mb"):
            if getattr(config, name):
                row[name] = getattr(config, name)
    return TableWrite(Table.OWNERS, _key(partition_id), orjson.dumps(row))


def _key(partition_id: int) -> bytes:
    return OWNER_ROW + b"%d" % partition_id


def _owners(vpn: StoredVpn) -> dict[int, Owner]:
    """Return the owners by partition. An unreadable row is skipped: it is rewritten, or its queue is lost."""
    owners: dict[int, Owner] = {}
    for key, value in vpn.owners.items():
        with suppress(ValueError, KeyError, TypeError):
            row = orjson.loads(value)
            partition_id = int(key.removeprefix(OWNER_ROW))
            if row["kind"] == STAGING:
                owners[partition_id] = Owner("", STAGING, 0, 1, 0, row)
            else:
                count = row["partition_count"]
                owners[partition_id] = Owner(row["queue"], row["kind"], row["number"], row["of"], count, row)
    return owners


def _restore_staging(vpn: StoredVpn, owners: Mapping[int, Owner]) -> None:
    for partition_id, owner in owners.items():
        if owner.kind == STAGING:
            vpn.catalog.setdefault(STAGING_ROW, str(partition_id).encode())


def _defined(vpns: Mapping[str, StoredVpn], partitions: Mapping[int, StoredPartition]) -> set[int]:
    """Return the partitions of queues with a definition; all partitions when a definition cannot be decoded."""
    defined: set[int] = set()
    for vpn in vpns.values():
        for key, value in vpn.catalog.items():
            if key.startswith(QUEUE_ROW):
                try:
                    defined.update(orjson.loads(value)["partition_ids"])
                except (ValueError, KeyError, TypeError):
                    return set(partitions)
    return defined


def _find_by_owners(vpn: StoredVpn, owners: Mapping[int, Owner], orphans: set[int], ids: PartitionIds) -> None:
    lost: dict[str, dict[int, int]] = {}  # ids by number by queue
    for partition_id, owner in owners.items():
        if owner.kind != STAGING and QUEUE_ROW + owner.queue.encode() not in vpn.catalog:
            lost.setdefault(owner.queue, {})[owner.number] = partition_id
    for name, by_number in sorted(lost.items()):
        rows = [owners[partition_id] for _, partition_id in sorted(by_number.items())]
        vpn.lost.append(_put_together(name, rows, by_number, orphans, ids))


def _put_together(
    name: str, rows: list[Owner], by_number: dict[int, int], orphans: set[int], ids: PartitionIds
) -> StoredQueue:
    """Reassemble a queue from its partitions' rows. Partitions without a row are found, or start empty."""
    known = dict(by_number)
    for number in range(max([each.total for each in rows])):
        if number not in known:
            known[number] = _missing_partition(number, by_number, orphans, ids)
    first = next((each.row for each in rows if each.number == 0), {})
    slots, rescale = layout_in(first)
    definition = shut_definition(
        name,
        partition_count=rows[0].partition_count,
        owner=next((each.row["owner"] for each in rows if "owner" in each.row), ""),
        retention_time_s=first.get("retention_time_s", 0),
        retention_size_mb=first.get("retention_size_mb", 0),
    )
    partition_ids = [known[number] for number in sorted(known)]
    return StoredQueue(definition, rows[0].kind, partition_ids, slots, rescale, definition_lost=True)


def _missing_partition(number: int, by_number: Mapping[int, int], orphans: set[int], ids: PartitionIds) -> int:
    """Return the partition with a number. A queue's ids are allocated together, so they are consecutive."""
    for other, partition_id in by_number.items():
        wanted = partition_id + number - other
        if wanted in orphans:
            orphans.discard(wanted)
            return wanted
    return ids.take(1)[0]
