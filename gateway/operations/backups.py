"""Start, show and cancel a backup of a running node, by the actor that makes it."""

import asyncio
from datetime import UTC, datetime

from sluicegate.actors.messages.operations import (
    BackupProgress,
    BackupUnavailable,
    CancelBackup,
    DescribeBackup,
    StartBackup,
)
from sluicegate.gateway.node.node import Node
from sluicegate.gateway.views.errors import Refused
from sluicegate.gateway.views.node.backups import BackupState, BackupView
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.storage.backup.folder import NAME_ALLOWED, NAME_FORM, is_taken


async def start_backup(node: Node, name: str) -> BackupView:
    """Start a backup; without a name it is named by the time. Raises QueueInvalid and Refused."""
    if node.services.spool_health.is_damaged():  # LMDB copies by the damaged pages, and may crash
        raise Refused(f"a damaged spool cannot be backed up: {node.services.spool_gate.blocked}")
    if not name:
        name = datetime.fromtimestamp(node.services.clock.wall_ms() / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    if not NAME_FORM.fullmatch(name):
        raise QueueInvalid("name", f"{name!r} is not allowed", NAME_ALLOWED)
    folder = node.services.config.backup.path.absolute() / name / node.services.environment.place
    try:
        taken = await asyncio.to_thread(is_taken, folder)
    except OSError as error:
        raise Refused(f"{folder} cannot be used: {error.strerror or error}") from None
    if taken:
        raise Refused(f"{folder} is not empty: take another name")
    return await _answer(node, StartBackup(name))


async def show_backup(node: Node) -> BackupView:
    """Return the progress of the latest backup. Raises Refused when there was none."""
    return await _answer(node, DescribeBackup())


async def cancel_backup(node: Node) -> BackupView:
    """Cancel the backup that is running. Raises Refused when there was none."""
    return await _answer(node, CancelBackup())


async def _answer(node: Node, message: StartBackup | DescribeBackup | CancelBackup) -> BackupView:
    try:
        progress: BackupProgress = await node.backups.ask(message)
    except BackupUnavailable as unavailable:
        raise Refused(str(unavailable)) from None
    return BackupView(
        name=progress.name,
        folder=progress.folder,
        state=BackupState(progress.state),
        started_ms=progress.started_ms,
        ended_ms=progress.ended_ms or None,
        written_bytes=progress.written_bytes,
        expected_bytes=progress.expected_bytes,
        failure=progress.failure,
    )
