"""The backup actor: makes backups of the spool, one at a time, each on a thread that blocks for it.

storage.backup.backup defines and makes a backup. A backup ends with the node: an incomplete one is removed when the
node stops.
"""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import final

import pykka

from sluicegate.actors.messages.operations import (
    CANCELLED,
    DONE,
    FAILED,
    RUNNING,
    BackupProgress,
    BackupUnavailable,
    CancelBackup,
    DescribeBackup,
    StartBackup,
)
from sluicegate.actors.runtime.actor import LoopActor
from sluicegate.actors.runtime.asks import LoopFuture
from sluicegate.actors.runtime.runtime import ActorCell, Runtime
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.observability.events import SYSTEM_BACKUP_COMPLETE, SYSTEM_BACKUP_FAILED
from sluicegate.storage.backup.backup import Backup
from sluicegate.storage.backup.folder import BackupNote
from sluicegate.storage.errors import BackupEnded, StorageError
from sluicegate.storage.interface import Store

log = logging.getLogger("sluicegate.backup")

NODE_STOPS = "the node stops"
ASKED_TO = "it was cancelled"
STOP_S = 10  # for one piece, and for removing the rest; a disk that takes longer does not respond


@dataclass(slots=True)
class _BackupEnded:
    """Thread -> actor: a backup is complete, or removed."""

    backup: Backup
    note: BackupNote | None
    ended: bool  # it was cancelled; else, without a note, it failed
    reason: str


class BackupThread(pykka.ThreadingActor):
    """Makes one backup."""

    use_daemon_thread = True

    def __init__(self, runtime: Runtime, reply_to: Address) -> None:
        super().__init__()
        self._runtime = runtime
        self._reply_to = reply_to

    def on_receive(self, backup: Backup) -> None:
        """Make the backup, and always report: the actor waits for it."""
        try:
            report = _BackupEnded(backup, backup.run(), False, "")
        except BackupEnded as error:
            report = _BackupEnded(backup, None, True, str(error))
        except StorageError as error:
            report = _BackupEnded(backup, None, False, str(error))
        except Exception as error:
            log.exception("a backup failed")
            report = _BackupEnded(backup, None, False, f"the backup failed: {error!r}")
        self._runtime.post_from_thread(self._reply_to, report)


@final
class BackupRecord:
    """The latest backup, and the outcomes of all. It outlives the actor, as the thread does."""

    def __init__(self) -> None:
        self.backup: Backup | None = None  # the latest
        self.thread: pykka.ActorRef[BackupThread] | None = None  # while it is being made
        self.name = ""
        self.state = DONE
        self.started_ms = 0
        self.ended_ms = 0
        self.failure = ""
        self.waiting: list[LoopFuture[BackupProgress]] = []  # requests to cancel it
        self.ended_counts: dict[str, int] = dict.fromkeys((DONE, FAILED, CANCELLED), 0)  # state -> backups
        self.last_done_ms = 0  # wall clock at the start of the latest complete one; 0: none

    def progress(self) -> BackupProgress:
        """Return the progress of the latest backup. Raises BackupUnavailable when there was none."""
        backup = self.backup
        if backup is None:
            raise BackupUnavailable("no backup was made since the node started")
        return BackupProgress(
            name=self.name,
            folder=str(backup.folder),
            state=self.state,
            started_ms=self.started_ms,
            ended_ms=self.ended_ms,
            written_bytes=backup.written_bytes,
            expected_bytes=backup.expected_bytes,
            failure=self.failure,
        )


class BackupActor(LoopActor):
    """Starts, watches and cancels backups. A restarted actor continues with the backup in progress."""

    def __init__(
        self,
        cell: ActorCell,
        record: BackupRecord,
        *,
        store: Store,
        folder: Path,
        place: Path,
        incarnation: int,
        node: str,
        release: str,
    ) -> None:
        super().__init__(cell)
        self.record = record
        self._store = store
        self._folder = folder
        self._place = place
        self._incarnation = incarnation
        self._node = node
        self._release = release
        self.handlers = {
            StartBackup: self._start,
            DescribeBackup: lambda _: self.record.progress(),
            CancelBackup: self._cancel,
            _BackupEnded: self._ended,
        }

    def on_stop(self) -> None:
        """Cancel the backup in progress, and wait until its files are removed."""
        record = self.record
        if record.backup is not None and record.thread is not None:
            record.backup.end(NODE_STOPS)
            try:
                record.thread.stop(timeout=STOP_S)
            except pykka.Timeout:
                log.warning("backup %s did not end in %d s: part of it may be left", record.name, STOP_S)

    def _start(self, message: StartBackup) -> BackupProgress:
        record = self.record
        if record.state == RUNNING:
            raise BackupUnavailable(f"backup {record.name!r} is running")
        started_ms = self.runtime.clock.wall_ms()
        backup = Backup(
            self._store,
            self._folder / message.name,
            place=self._place,
            incarnation=self._incarnation,
            taken_ms=started_ms,
            node=self._node,
            release=self._release,
        )
        thread = BackupThread.start(self.runtime, self.cell.inbox)
        # Nothing is recorded before this: the store may not answer, and the machine may have no thread left.
        record.backup, record.thread = backup, thread
        record.name, record.state, record.failure = message.name, RUNNING, ""
        record.started_ms, record.ended_ms = started_ms, 0
        thread.tell(backup)
        return record.progress()

    def _cancel(self, _: CancelBackup) -> BackupProgress | LoopFuture[BackupProgress]:
        record = self.record
        if record.backup is None or record.state != RUNNING:
            return record.progress()
        record.backup.end(ASKED_TO)
        answer: LoopFuture[BackupProgress] = LoopFuture()
        record.waiting.append(answer)
        return answer

    def _ended(self, report: _BackupEnded) -> None:
        record = self.record
        assert record.thread is not None, "one is made at a time, and ends once"
        record.thread.stop(block=False)
        record.thread = None
        record.ended_ms = self.runtime.clock.wall_ms()
        record.failure = report.reason
        if report.note is not None:
            record.state = DONE
            record.last_done_ms = record.started_ms
            kind, text = SYSTEM_BACKUP_COMPLETE, f"backup {record.name} of {report.note.data_bytes} bytes is whole"
        else:
            record.state = CANCELLED if report.ended else FAILED
            kind, text = SYSTEM_BACKUP_FAILED, f"backup {record.name} was not made: {report.reason}"
        record.ended_counts[record.state] += 1
        waiting, record.waiting = record.waiting, []
        for answer in waiting:
            answer.set(record.progress())
        self.runtime.events.emit(kind, text)
