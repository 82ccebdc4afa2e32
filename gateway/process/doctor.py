"""Examine a node that does not run, or a backup: configuration, folder, disk, and everything that is stored.

Nothing is changed. A running node has its spool open for writing, so its spool is examined in a backup.
"""

import fcntl
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.sections.values import rounded_size
from sluicegate.gateway.process.brokers import broker_folder, broker_name, brokers_in, config_of_broker, count_of
from sluicegate.gateway.process.lint import lint
from sluicegate.gateway.views.text import counted
from sluicegate.messaging.queues.definition import is_named
from sluicegate.messaging.topics.syntax import DEAD_MESSAGE_QUEUE
from sluicegate.protocols.security.scram import ITERATIONS_MIN, few_iterations, iterations_of
from sluicegate.storage.backup.backup import SPARE_BYTES
from sluicegate.storage.backup.folder import BackupNote, checked_pieces, read_note
from sluicegate.storage.backup.reader import SpoolReader
from sluicegate.storage.catalog.vpn_rows import is_being_deleted
from sluicegate.storage.environment.environment import disk_free_bytes
from sluicegate.storage.environment.file_kinds import is_folder, is_there
from sluicegate.storage.environment.file_rights import describe_rights, open_to_others
from sluicegate.storage.environment.folder_lock import DATA_FILE, LOCK_FILE
from sluicegate.storage.errors import StorageError
from sluicegate.storage.integrity.inspection import Severity, SpoolFinding, inspect_spool
from sluicegate.storage.integrity.walk import walk_trees
from sluicegate.storage.store.store import SPOOL_FILES

DAMAGES_SHOWN_MAX: Final = 100
MAP_FULL_SHARE: Final = 0.8  # of the map; more is a warning


@dataclass
class Examination:
    """What was checked, and the problems found."""

    findings: list[SpoolFinding] = field(default_factory=list)
    looked_at: dict[str, int | str] = field(default_factory=dict)  # name -> count or description
    queues: set[tuple[str, str]] = field(default_factory=set)  # message VPN and name, also of queues of neighbors

    def is_healthy(self) -> bool:
        """Return whether there is no error among the findings."""
        return all(each.severity != Severity.ERROR for each in self.findings)

    def add(self, other: "Examination", number: int) -> None:
        """Add what was found of a broker; of the second and further ones it says so."""
        self.queues |= other.queues
        if number == 1:
            self.findings += other.findings
            self.looked_at |= other.looked_at
            return
        self.findings += [each._replace(subject=f"broker {number}: {each.subject}") for each in other.findings]
        self.looked_at |= {f"broker {number}: {name}": value for name, value in other.looked_at.items()}

    def drop_what_others_have(self) -> None:
        """Drop the findings that a queue is missing which another broker has."""
        self.findings = [each for each in self.findings if each.lacks not in self.queues]

    def error(self, subject: str, text: str) -> None:
        """Add an error."""
        self.findings.append(SpoolFinding(Severity.ERROR, subject, text))

    def warn(self, subject: str, text: str) -> None:
        """Add a warning."""
        self.findings.append(SpoolFinding(Severity.WARNING, subject, text))


def examine_node(config: Config, *, now_s: float, looked: Callable[[], None]) -> Examination:
    """Check a configuration, and its data folder unless a node uses it. `looked` is called for each page.

    `now_s` is the time in seconds since the epoch.
    """
    examination = Examination()
    examination.findings += lint(config, now_s=now_s)
    numbers = _brokers_in(config.data.path, examination)
    retired = [broker_name(config.node.name, each) for each in numbers if each > count_of(config.brokers or 1)]
    if retired:
        examination.looked_at["a start retires"] = f"{', '.join(retired)}: what they have moves to the other brokers"
    siblings = {broker_name(config.node.name, each) for each in numbers}  # each has links to the others
    for number in numbers:
        its_config = config_of_broker(config, number, len(numbers), {})
        examination.add(_examine_broker(its_config, siblings, looked), number)
    examination.drop_what_others_have()
    return examination


def _brokers_in(folder: Path, examination: Examination) -> tuple[int, ...]:
    try:
        return brokers_in(folder)
    except OSError as error:
        examination.error(str(folder), error_text(error))
        return (1,)


def _examine_broker(config: Config, siblings: Collection[str], looked: Callable[[], None]) -> Examination:
    """Check the data folder of one broker."""
    examination = Examination()
    examination.looked_at["data folder"] = str(config.data.path)
    try:
        _examine_data(examination, config, siblings, looked)
    except OSError as error:
        examination.error("data.path", error_text(error))
    return examination


def examine_backup(folder: Path, *, looked: Callable[[], None]) -> Examination:
    """Check a backup, of each broker that it has: the checksum, then the spool."""
    examination = Examination()
    for number in _brokers_in(folder, examination):
        examination.add(_examine_backup(broker_folder(folder, number), looked), number)
    examination.drop_what_others_have()
    return examination


def _examine_backup(folder: Path, looked: Callable[[], None]) -> Examination:
    examination = Examination()
    examination.looked_at["backup"] = str(folder)
    try:
        note: BackupNote = read_note(folder)
        for _ in checked_pieces(folder, note):
            pass
    except (StorageError, OSError) as error:
        examination.error(str(folder), error_text(error) if isinstance(error, OSError) else str(error))
        return examination
    examination.looked_at["checksum"] = f"correct ({note.data_bytes} bytes)"
    _examine_spool(examination, lambda: SpoolReader.open_backup(folder), folder, looked)
    return examination


def error_text(error: OSError) -> str:
    """Return the text of a system error, with its file."""
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)


def _examine_data(
    examination: Examination, config: Config, siblings: Collection[str], looked: Callable[[], None]
) -> None:
    """Check the data folder. Raises OSError if it cannot be read."""
    folder = config.data.path
    if not is_there(folder):
        examination.looked_at["spool"] = "none; the first start creates one"
        _examine_parent(examination, folder)
        return
    _examine_folder(examination, config)
    if not is_there(folder / DATA_FILE):
        examination.looked_at["spool"] = "none; the first start creates one"
        return
    with claimed(folder) as holder:
        if holder is not None:
            examination.looked_at["spool"] = f"in use by process {holder or 'unknown'}; make a backup and check that"
        else:
            linked = {*config.links, *siblings}
            _examine_spool(examination, lambda: SpoolReader.open_folder(folder), folder, looked, linked)


def _examine_parent(examination: Examination, folder: Path) -> None:
    there = next(parent for parent in folder.absolute().parents if is_there(parent))
    if not os.access(there, os.W_OK | os.X_OK):
        examination.error("data.path", f"{folder} does not exist, and {there} is not writable")


def _examine_folder(examination: Examination, config: Config) -> None:
    folder = config.data.path
    if not is_folder(folder):
        examination.error("data.path", f"{folder} is not a folder")
        return
    for path in (folder, *(folder / name for name in (DATA_FILE, LOCK_FILE))):
        if is_there(path) and not os.access(path, os.R_OK | os.W_OK):
            examination.error(str(path), "this user cannot read and write it")
    rights = open_to_others(folder, SPOOL_FILES)
    if rights:
        examination.warn(str(folder), describe_rights(rights))
    free, size = disk_free_bytes(folder), _size(folder / DATA_FILE)
    examination.looked_at["disk"] = f"{rounded_size(free)} free"
    if free < SPARE_BYTES:
        text = f"only {rounded_size(free)} free: the spool refuses messages that need more space"
        examination.error(str(folder), text)
    elif free < (growth := config.spool.map_bytes_max - size):
        text = f"{rounded_size(free)} free, but spool.map_bytes_max lets the spool grow by {rounded_size(growth)}"
        examination.warn(str(folder), text)
    if size > MAP_FULL_SHARE * config.spool.map_bytes_max:
        text = f"the data file has reached {rounded_size(size)} of {rounded_size(config.spool.map_bytes_max)}"
        examination.warn("spool.map_bytes_max", text)


def _size(path: Path) -> int:
    return path.stat().st_size if is_there(path) else 0


@contextmanager
def claimed(folder: Path) -> Iterator[str | None]:
    """Prevent nodes from starting on the folder during the block; yield the process ID of a running node, or None.

    Files that do not exist or cannot be read are not locked.
    """
    holder: str | None = None
    with ExitStack() as stack:
        for name in (LOCK_FILE, DATA_FILE):
            try:
                file = stack.enter_context((folder / name).open("rb"))
            except OSError:
                continue
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                said = file.read(32).decode(errors="replace").strip() if name == LOCK_FILE else ""
                holder = holder or said
        yield holder


def _examine_spool(
    examination: Examination,
    opened: Callable[[], SpoolReader],
    folder: Path,
    looked: Callable[[], None],
    linked: Collection[str] | None = None,
) -> None:
    """Examine a spool. `linked` are the neighbors that a configuration has links to; None for a backup."""
    try:
        if not _examine_trees(examination, folder):
            return  # LMDB could crash the process on damaged pages
        with opened() as reader:
            examination.looked_at |= _counts(reader)
            examination.queues |= _queues_known_to(reader)
            examination.findings += inspect_spool(reader, looked=looked)
            examination.findings += _interrupted_deletions(reader)
            examination.findings += _missing_default_dead_message_queues(reader)
            examination.findings += _users_with_old_keys(reader)
            if linked is not None:
                examination.findings += _neighbors_without_link(reader, linked)
    except StorageError as error:
        examination.error(str(folder / DATA_FILE), str(error))


def _interrupted_deletions(reader: SpoolReader) -> Iterator[SpoolFinding]:
    """Yield a warning for each message VPN that operators have deleted, and that the next start will be rid of."""
    for vpn in reader.vpns.values():
        if is_being_deleted(vpn.rows.catalog):
            text = "its deletion was interrupted; the next start finishes it"
            yield SpoolFinding(Severity.WARNING, f"message VPN {vpn.name}", text)


def _missing_default_dead_message_queues(reader: SpoolReader) -> Iterator[SpoolFinding]:
    """Yield a warning for each message VPN whose queues lose dead messages for want of the default queue for them."""
    for vpn in reader.vpns.values():
        configs = [queue.definition.config for queue in vpn.queues.values()]
        losing = [each for each in configs if is_named(each.name) and each.dead_msg_queue == DEAD_MESSAGE_QUEUE]
        if losing and DEAD_MESSAGE_QUEUE not in vpn.queues:
            queues = f"{counted(len(losing), 'queue')} (such as {losing[0].name})"
            text = f"it does not exist, so dead messages of {queues} are lost; create it, or set dead_msg_queue"
            subject = f"message VPN {vpn.name}: {DEAD_MESSAGE_QUEUE}"
            yield SpoolFinding(Severity.WARNING, subject, text, (vpn.name, DEAD_MESSAGE_QUEUE))


def _queues_known_to(reader: SpoolReader) -> set[tuple[str, str]]:
    """Return message VPN and name of each queue that a broker has, or that a neighbor has told it of."""
    from sluicegate.messaging.network.interest import InterestKind  # late: most commands need nothing of networks
    from sluicegate.protocols.network.guaranteed.kept import kept_links

    found = {(vpn.name, name) for vpn in reader.vpns.values() for name in vpn.queues}
    for vpn in reader.vpns.values():
        for link in kept_links(vpn.rows.sessions, b"").values():
            told = [each.topic_filter for each in link.interests if each.kind == InterestKind.QUEUE]
            found.update([(vpn.name, name) for name in told])
    return found


def _users_with_old_keys(reader: SpoolReader) -> Iterator[SpoolFinding]:
    """Yield a warning for each user whose SCRAM keys an earlier release made. A start reports unreadable users."""
    from sluicegate.gateway.provisioning.store import (
        object_rows,  # late: imports the broker, needed only if the spool opens
    )
    from sluicegate.gateway.provisioning.stored_users import USERS

    for vpn in reader.vpns.values():
        for row in object_rows(USERS, vpn.rows.catalog).values():
            with suppress(ValueError):
                user = USERS.read(row)
                count = iterations_of(user.scram)
                if 0 < count < ITERATIONS_MIN:
                    yield SpoolFinding(Severity.WARNING, f"{vpn.name}: user {user.name}", few_iterations(count))


def _neighbors_without_link(reader: SpoolReader, configured: Collection[str]) -> Iterator[SpoolFinding]:
    """Yield a warning for each neighbor broker that something is kept for, and that no link leads to any more."""
    from sluicegate.gateway.node.links import LINKS  # late, as above
    from sluicegate.gateway.provisioning.store import object_rows
    from sluicegate.protocols.network.guaranteed.kept import kept_links

    linked = set(configured)
    for vpn in reader.vpns.values():
        linked.update([name.decode() for name in object_rows(LINKS, vpn.rows.catalog)])
    for vpn in reader.vpns.values():
        for name in kept_links(vpn.rows.sessions, b""):
            if name not in linked:
                text = f"no link leads to it, and its queue is kept; to end that: sluicegate link forget {name}"
                yield SpoolFinding(Severity.WARNING, f"message VPN {vpn.name}: neighbor {name}", text)


def _examine_trees(examination: Examination, folder: Path) -> bool:
    """Check LMDB's own pages; return whether they are intact. Raises OSError, StoreFailed."""
    damages = walk_trees(folder / DATA_FILE)
    if not damages:
        return True
    tables = sorted({each.table for each in damages})
    examination.looked_at["trees"] = f"damaged: {', '.join(tables)}"
    for damage in damages[:DAMAGES_SHOWN_MAX]:
        examination.error(damage.table, f"page {damage.page} of {DATA_FILE}: {damage.problem}")
    if len(damages) > DAMAGES_SHOWN_MAX:
        examination.error(str(folder / DATA_FILE), counted(len(damages) - DAMAGES_SHOWN_MAX, "more damaged page"))
    text = "its page structure is damaged, so its records were not checked: restore a backup, or copy what is readable"
    examination.error(str(folder / DATA_FILE), f"{text} into a new spool with `sluicegate doctor --salvage FOLDER`")
    return False


def _counts(reader: SpoolReader) -> dict[str, int | str]:
    queues_count = partitions_count = messages_count = 0
    for vpn in reader.vpns.values():
        queues_count += len(vpn.queues)
        for name, queue in vpn.queues.items():
            partitions_count += len(queue.partition_ids)
            messages_count += sum(each.waiting_count for each in vpn.partitions(name))
    return {
        "incarnation": f"{reader.incarnation:016x}",
        "closed in order": "yes" if reader.was_clean else "no; its messages will be flagged as redelivered",
        "message VPNs": len(reader.vpns),
        "queues": queues_count,
        "partitions": partitions_count,
        "messages": messages_count,
        "pages": len(reader.pages),
        "journal records": reader.journal_records_count,
        **{f"rows of {table}": len(rows) for table, rows in reader.tables.items()},
    }
