"""The actor that makes backups of the spool: one at a time, each on a thread that blocks for it.

What a backup is and how it is made is storage.backup's. A backup ends with the node: one that is not whole when the
node stops is removed.
"""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pykka

from actors.backup_messages import (
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
from actors.cell import ActorCell
from actors.futures import LoopFuture
from actors.loop_actor import LoopActor
from actors.runtime import Runtime
from messaging.address import Address
from messaging.events import SYSTEM_BACKUP_COMPLETE, SYSTEM_BACKUP_FAILED
from storage.backup import Backup
from storage.backup_folder import BackupNote
from storage.errors import BackupEnded, StorageError
from storage.interface import Store

log = logging.getLogger("sluicegate.backup")

NODE_STOPS = "the node stops"
ASKED_TO = "it was cancelled"
MAKER_FAILED = "the actor that watched over it failed"
STOP_S = 10  # for one piece, and for removing what there is; a disk that takes longer does not answer


@dataclass(slots=True)
class _BackupEnded:
    """Thread -> actor: a backup is whole, or nothing of it is left."""

    backup: Backup
    note: BackupNote | None
    ended: bool  # it was told to end; else, without a note, it failed
    reason: str


class BackupThread(pykka.ThreadingActor):
    """Makes one backup."""

    use_daemon_thread = True

    def __init__(self, runtime: Runtime, reply_to: Address) -> None:
        super().__init__()
        self._runtime = runtime
        self._reply_to = reply_to

    def on_receive(self, backup: Backup) -> None:
        """Make it, and report whatever happens: somebody waits for it."""
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


class BackupActor(LoopActor):
    """Begins, watches and ends backups."""

    def __init__(
        self, cell: ActorCell, *, store: Store, folder: Path, incarnation: int, node: str, release: str
    ) -> None:
        super().__init__(cell)
        self._store = store
        self._folder = folder
        self._incarnation = incarnation
        self._node = node
        self._release = release
        self._backup: Backup | None = None  # the latest
        self._thread: pykka.ActorRef[BackupThread] | None = None  # while it is being made
        self._name = ""
        self._state = DONE
        self._started_ms = 0
        self._ended_ms = 0
        self._failure = ""
        self.ended_counts: dict[str, int] = {}  # state -> backups
        self.last_done_ms = 0  # wall clock at which the latest whole one had begun; 0: there was none
        self._waiting: list[LoopFuture[BackupProgress]] = []  # who cancelled it
        self.handlers = {
            StartBackup: self._start,
            DescribeBackup: lambda _: self._progress(),
            CancelBackup: self._cancel,
            _BackupEnded: self._ended,
        }

    def on_stop(self) -> None:
        """End what is being made, and wait until it has removed what there was."""
        if self._backup is not None and self._thread is not None:
            self._backup.end(NODE_STOPS)
            try:
                self._thread.stop(timeout=STOP_S)
            except pykka.Timeout:
                log.warning("backup %s did not end in %d s: part of it may be left", self._name, STOP_S)

    def on_failure(self, *_: Any) -> None:
        """End what is being made: nobody would hear how it ends."""
        if self._backup is not None and self._thread is not None:
            self._backup.end(MAKER_FAILED)
            self._thread.stop(block=False)

    def _start(self, message: StartBackup) -> BackupProgress:
        if self._state == RUNNING:
            raise BackupUnavailable(f"backup {self._name!r} is running")
        clock = self.runtime.clock
        self._name = message.name
        self._state = RUNNING
        self._started_ms = clock.wall_ms()
        self._ended_ms = 0
        self._failure = ""
        self._backup = Backup(
            self._store,
            self._folder / message.name,
            incarnation=self._incarnation,
            taken_ms=self._started_ms,
            node=self._node,
            release=self._release,
        )
        self._thread = BackupThread.start(self.runtime, self.cell.inbox)
        self._thread.tell(self._backup)
        return self._progress()

    def _cancel(self, _: CancelBackup) -> BackupProgress | LoopFuture[BackupProgress]:
        if self._backup is None or self._state != RUNNING:
            return self._progress()
        self._backup.end(ASKED_TO)
        answer: LoopFuture[BackupProgress] = LoopFuture()
        self._waiting.append(answer)
        return answer

    def _ended(self, report: _BackupEnded) -> None:
        if report.backup is not self._backup or self._thread is None:
            return  # of an actor that failed since
        self._thread.stop(block=False)
        self._thread = None
        self._ended_ms = self.runtime.clock.wall_ms()
        self._failure = report.reason
        if report.note is not None:
            self._state = DONE
            self.last_done_ms = self._started_ms
            text = f"backup {self._name} of {report.note.data_bytes} bytes is whole"
            self.runtime.events.emit(SYSTEM_BACKUP_COMPLETE, text)
        else:
            self._state = CANCELLED if report.ended else FAILED
            self.runtime.events.emit(SYSTEM_BACKUP_FAILED, f"backup {self._name} was not made: {report.reason}")
        self.ended_counts[self._state] = self.ended_counts.get(self._state, 0) + 1
        waiting, self._waiting = self._waiting, []
        for answer in waiting:
            answer.set(self._progress())

    def _progress(self) -> BackupProgress:
        backup = self._backup
        if backup is None:
            raise BackupUnavailable("no backup was made since the node started")
        return BackupProgress(
            name=self._name,
            folder=str(backup.folder),
            state=self._state,
            started_ms=self._started_ms,
            ended_ms=self._ended_ms,
            written_bytes=backup.written_bytes,
            expected_bytes=backup.expected_bytes,
            failure=self._failure,
        )
