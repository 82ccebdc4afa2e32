"""Inspects a spool: every seal, and the consistency of its records. Changes nothing.

A finding is an *error* when messages or positions are lost, or will be misread; a *warning* when nothing is lost, but
something uses space or is unexpected.

See also: opening and reading (storage.backup.reader), checks of the configuration (gateway).
"""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final, NamedTuple

import orjson

from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.messaging.topics.syntax import DEAD_MESSAGE_QUEUE
from sluicegate.storage.backup.reader import SpoolReader, VpnReader
from sluicegate.storage.catalog.queues import COUNTER_ROW, staging_partition_id
from sluicegate.storage.catalog.staging import PAGE_ROW
from sluicegate.storage.errors import StorageError
from sluicegate.storage.interface import PageEntry, Table

QUARANTINE_SHOWN_MAX: Final = 100


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"


class SpoolFinding(NamedTuple):
    """Something that is not in order."""

    severity: Severity
    subject: str  # what it is about: a queue, a file, a setting
    text: str
    lacks: tuple[str, str] = ("", "")  # message VPN and name of a queue that is missing, if no other broker has it


def inspect_spool(reader: SpoolReader, *, looked: Callable[[], None]) -> Iterator[SpoolFinding]:
    """Yield what is not in order in a spool. `looked` is called for each page that was read. Raises StoreFailed."""
    for entry in reader.damage:
        yield SpoolFinding(Severity.ERROR, entry.where, f"{entry.reason}: {entry.detail}")
    owners, findings = owners_of(reader)
    yield from findings
    yield from _pages(reader, owners, looked)
    yield from _cursors(reader, owners)
    for vpn in reader.vpns.values():
        yield from _lost_definitions(vpn)
        yield from _dead_message_queues(vpn)
        yield from _ledgers(vpn)
        yield from _readers(vpn)
        yield from _staged(reader, vpn)
    yield from _quarantine(reader)


def owners_of(reader: SpoolReader) -> tuple[dict[int, str], list[SpoolFinding]]:
    """Return the queue of each partition id, and what is wrong with the ids."""
    owners: dict[int, str] = {}
    findings: list[SpoolFinding] = []
    counter = reader.tables[Table.CATALOG].get(COUNTER_ROW, b"")
    next_id = int(counter) if counter.isdigit() else 0
    for vpn in reader.vpns.values():
        staging_id = staging_partition_id(vpn.name, vpn.rows.catalog)
        if staging_id is not None:
            owners[staging_id] = "staged transactions"
        for queue in vpn.queues.values():
            subject = _queue(vpn, queue.name)
            for partition_id in queue.partition_ids:
                if partition_id in owners:
                    text = f"its partition id {partition_id} is that of {owners[partition_id]}, too"
                    findings.append(SpoolFinding(Severity.ERROR, subject, text))
                elif next_id <= partition_id and not queue.definition_lost:  # else a start counts it in
                    text = f"its partition id {partition_id} will be given out again: the counter is at {next_id}"
                    findings.append(SpoolFinding(Severity.ERROR, subject, text))
                owners[partition_id] = subject
    return owners, findings


def _queue(vpn: VpnReader, name: str) -> str:
    return f"queue {name}" if vpn.name == DEFAULT_VPN else f"queue {name} of message VPN {vpn.name}"


def _lost_definitions(vpn: VpnReader) -> Iterator[SpoolFinding]:
    for queue in vpn.queues.values():
        if queue.definition_lost:
            count = sum([each.waiting_count for each in vpn.partitions(queue.name)])
            text = f"its definition is lost: it is served shut, with {count} messages, until an operator decides"
            yield SpoolFinding(Severity.ERROR, _queue(vpn, queue.name), text)


def _dead_message_queues(vpn: VpnReader) -> Iterator[SpoolFinding]:
    for queue in vpn.queues.values():
        dead = queue.definition.config.dead_msg_queue
        if dead not in ("", DEAD_MESSAGE_QUEUE) and dead not in vpn.queues:
            text = f"its dead_msg_queue {dead!r} is not there: what dies is lost"
            yield SpoolFinding(Severity.WARNING, _queue(vpn, queue.name), text, (vpn.name, dead))


def _pages(reader: SpoolReader, owners: dict[int, str], looked: Callable[[], None]) -> Iterator[SpoolFinding]:
    known = {(page.partition_id, page.summary.first_sequence) for page in reader.pages}
    before: PageEntry | None = None
    for page in reader.pages:
        first = page.summary.first_sequence
        subject = f"page of partition {page.partition_id} from sequence {first}"
        if page.partition_id not in owners:
            yield SpoolFinding(Severity.WARNING, subject, "no queue has that partition; it takes room")
        if before is not None and before.partition_id == page.partition_id and first < before.summary.end_sequence:
            text = f"it begins within the page before, which goes up to {before.summary.end_sequence}"
            yield SpoolFinding(Severity.ERROR, subject, text)
        before = page
        try:
            lost = reader.read_page(page.partition_id, first).lost
        except StorageError as error:
            yield SpoolFinding(Severity.ERROR, subject, str(error))
        else:
            if lost:
                yield SpoolFinding(Severity.ERROR, subject, f"damaged: {lost}")
        looked()
    for key in reader.page_keys():
        if key not in known:
            subject = f"page of partition {key.partition_id} from sequence {key.first_sequence}"
            yield SpoolFinding(
                Severity.ERROR, subject, "the directory does not know it, so nobody will be given its messages"
            )


def _cursors(reader: SpoolReader, owners: dict[int, str]) -> Iterator[SpoolFinding]:
    for partition_id, cursor in reader.cursor_states.items():
        subject = f"cursor of partition {partition_id}"
        if partition_id not in owners:
            yield SpoolFinding(Severity.WARNING, subject, "no queue has that partition")
        highest = max([cursor.floor, *[end for _, end in cursor.settled]])
        if highest > cursor.next_sequence:
            text = f"{highest - 1} is settled, and sequences from {cursor.next_sequence} on were never given out"
            yield SpoolFinding(Severity.ERROR, subject, text)
    for page in reader.pages:
        state = reader.cursor_states.get(page.partition_id)
        if state is not None and page.summary.end_sequence > state.next_sequence:
            text = f"it has sequence {page.summary.end_sequence - 1}, which will be given out again"
            subject = f"page of partition {page.partition_id} from sequence {page.summary.first_sequence}"
            yield SpoolFinding(Severity.ERROR, subject, text)


def _ledgers(vpn: VpnReader) -> Iterator[SpoolFinding]:
    """Build what a node that starts would build."""
    for name in vpn.queues:
        try:
            vpn.check(name)
        except AssertionError as error:
            yield SpoolFinding(Severity.ERROR, _queue(vpn, name), f"its messages do not add up: {error}")


def _readers(vpn: VpnReader) -> Iterator[SpoolFinding]:
    for queue in vpn.cursors.queues():
        if queue not in vpn.queues:
            names = ", ".join([cursor.name for cursor in vpn.cursors.of(queue)])
            yield SpoolFinding(Severity.WARNING, f"durable cursors {names}", f"there is no queue {queue!r}")


def _staged(reader: SpoolReader, vpn: VpnReader) -> Iterator[SpoolFinding]:
    """Hold the pages of transactions against their rows."""
    staging_id = staging_partition_id(vpn.name, vpn.rows.catalog)
    pages = {page.summary.first_sequence for page in reader.pages if page.partition_id == staging_id}
    rows: set[int] = set()
    for key, value in vpn.rows.transactions.items():
        if key.startswith(PAGE_ROW):
            rows.add(int(key.removeprefix(PAGE_ROW)))
            if int(key.removeprefix(PAGE_ROW)) not in pages:
                name = orjson.loads(value)[0]
                yield SpoolFinding(Severity.ERROR, f"transaction {name}", f"its page {key.decode()} is not there")
    for first in sorted(pages - rows):
        yield SpoolFinding(Severity.WARNING, f"staged page {first}", "no transaction has it; the next start removes it")


def _quarantine(reader: SpoolReader) -> Iterator[SpoolFinding]:
    try:
        for item in reader.quarantine(QUARANTINE_SHOWN_MAX):
            entry = item.entry
            text = f"in quarantine, {len(item.data)} bytes: {entry.where}, {entry.reason}: {entry.detail}"
            yield SpoolFinding(Severity.WARNING, f"quarantine item {item.number}", text)
    except StorageError as error:
        yield SpoolFinding(Severity.ERROR, "quarantine", str(error))
