"""Views of backups."""

from dataclasses import dataclass
from enum import StrEnum

from sluicegate.actors.messages.operations import CANCELLED, DONE, FAILED, RUNNING


class BackupState(StrEnum):
    """The state of a backup."""

    RUNNING = RUNNING
    DONE = DONE
    CANCELLED = CANCELLED  # its files are removed
    FAILED = FAILED  # its files are removed


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupView:
    """The latest backup, and how far it has come."""

    name: str
    folder: str  # on the machine of the node
    state: BackupState
    started_ms: int  # wall clock: it contains everything confirmed before
    ended_ms: int | None = None
    written_bytes: int = 0
    expected_bytes: int = 0  # about
    failure: str = ""
