"""What one site alone had of the log, as lines that operators and programs read.

Each line is a JSON object: what one record of the log published and settled. `content` has all of the record, as it was
in the log (`storage.log.record`), so nothing of it is lost that the other fields do not show.

    {"record": 904, "time": "2026-11-28T10:00:00.000+00:00", "epoch": 7,
     "published": [{"topic": "orders/1", "payload": "aGVsbG8=", "queues": [{"vpn": "default", "name": "orders"}]}],
     "settled": [{"queue": {"vpn": "default", "name": "orders"}, "first": 12, "end": 15}],
     "definitions": 0, "content": "AQ..."}

`first` and `end` are sequences of one partition, `end` is exclusive. `definitions` counts rows of queues, sessions,
retained messages and the like. `problem` is there if the record cannot be read. Where the site has trimmed its log
meanwhile, a line says which messages of it are not there: `{"trimmed": {"first": 880, "end": 904}, ...}`. What they did
is in the spool that the site had, which is kept as well.
"""

import base64
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import orjson

from sluicegate.messaging.message.vpn import rows_by_vpn
from sluicegate.storage.errors import DamagedRecord, UnsupportedFormat
from sluicegate.storage.log.record import decode_log_record
from sluicegate.storage.records.journal import JournalRecord, decode_journal_record
from sluicegate.storage.replication.replica import Record, Replica
from sluicegate.storage.replication.stream import Stream

WAIT_S: Final = 1.0


class QueueName(NamedTuple):
    """The queue of a partition."""

    vpn: str
    name: str


def queues_of_partitions(rows: Iterable[tuple[bytes, bytes]]) -> dict[int, QueueName]:
    """Return the queue of each partition that the table of owners names; what cannot be read is left out."""
    found: dict[int, QueueName] = {}
    for vpn, of_vpn in rows_by_vpn(rows).items():
        for key, value in of_vpn.items():
            with suppress(ValueError, KeyError, TypeError):
                found[int(key.rpartition(b"/")[2])] = QueueName(vpn, orjson.loads(value)["queue"])
    return found


def line_of(record: Record, *, time_ms: int, epoch: int, queues: Mapping[int, QueueName]) -> dict[str, Any]:
    """Return the line of a record; `queues` has the queue of each partition that is known."""
    line: dict[str, Any] = {
        "record": record.number,
        "time": datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        "epoch": epoch,
        "published": [],
        "settled": [],
        "definitions": 0,
        "content": base64.b64encode(record.data).decode(),
    }
    where = f"record {record.number}"
    try:
        found = decode_log_record(record.data, where, is_sound=True)
        line["definitions"] = len(found.rows)
        if found.journal is not None:
            _put_journal(line, decode_journal_record(found.journal, where), queues)
    except (DamagedRecord, UnsupportedFormat) as error:
        line["problem"] = str(error)
    return line


def _put_journal(line: dict[str, Any], journal: JournalRecord, queues: Mapping[int, QueueName]) -> None:
    for batch, matches in journal.entries:
        names: list[list[dict[str, Any]]] = [[] for _ in range(batch.count)]
        for match in matches:
            for row in range(batch.count) if match.rows is None else match.rows:
                names[row].append(_queue(match.partition_id, queues))
        line["published"] += [
            {"topic": batch.topic_of(row), "payload": base64.b64encode(payload).decode(), "queues": names[row]}
            for row, payload in enumerate(batch.payloads())
        ]
    line["settled"] += [
        {"queue": _queue(partition, queues), "first": first, "end": end}
        for partition, first, end in journal.settlements
    ]


def _queue(partition: int, queues: Mapping[int, QueueName]) -> dict[str, Any]:
    known = queues.get(partition)
    return {"partition": partition} if known is None else known._asdict()


def _trimmed(first: int, end: int) -> dict[str, Any]:
    return {"trimmed": {"first": first, "end": end}, "published": [], "settled": [], "definitions": 0}


async def lines_between(
    stream: Stream, common: int, last: int, queues: Mapping[int, QueueName]
) -> AsyncIterator[dict[str, Any]]:
    """Yield the lines of the records of a stream behind one message and up to another one. Raises what it raises.

    A record of which only the end is behind `common` is there as far as it is; so is one behind what was trimmed.
    """
    reader = Replica("", "")
    before = await stream.at(common) if common else None
    reader.resume(common if before is not None else common + 1)
    while reader.read_through < last:
        for sequence, data in await stream.read(reader.read_through, WAIT_S):
            if sequence > last:
                return
            if sequence > reader.read_through + 1:
                yield _trimmed(reader.read_through + 1, sequence)
                reader = Replica("", "")
                reader.resume(sequence)
            record = reader.read(sequence, data)
            if record is not None and sequence > common and record.data:
                yield line_of(record, time_ms=reader.time_ms, epoch=reader.owner_epoch, queues=queues)
