"""What is said to the actor that makes backups, and what it answers."""

from dataclasses import dataclass
from typing import Final

RUNNING: Final = "running"
DONE: Final = "done"
CANCELLED: Final = "cancelled"
FAILED: Final = "failed"


class BackupUnavailable(Exception):
    """What was asked for cannot be done now: one is running already, or there was none."""


@dataclass(slots=True)
class StartBackup:
    """Ask: make a backup under this name, a form that backup_folder.NAME_FORM has.

    Answered with BackupProgress; BackupUnavailable is raised while another one is running.
    """

    name: str


@dataclass(slots=True)
class DescribeBackup:
    """Ask: the latest backup. Answered with BackupProgress, or BackupUnavailable is raised when there was none."""


@dataclass(slots=True)
class CancelBackup:
    """Ask: end the backup that is running, if one is. Answered like DescribeBackup, once it has ended."""


@dataclass(frozen=True, slots=True)
class BackupProgress:
    """How far the latest backup has come."""

    name: str
    folder: str
    state: str
    started_ms: int  # wall clock; what was confirmed before is in it
    ended_ms: int  # 0: it runs
    written_bytes: int
    expected_bytes: int  # about
    failure: str
