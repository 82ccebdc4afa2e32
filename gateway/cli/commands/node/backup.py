"""`sluicegate backup|backup-status|backup-cancel|restore`: back up a running node's spool, and restore it."""

import secrets
import time
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

from sluicegate.gateway.cli.admin.client import URL_DEFAULT, AdminClient, UrlOption
from sluicegate.gateway.cli.commands.node.node import ConfigOption, DataOption, SetOption, loaded_config
from sluicegate.gateway.cli.terminal.failures import CommandFailed
from sluicegate.gateway.cli.terminal.output import JsonOption, print_json, time_text
from sluicegate.gateway.config.sections.values import rounded_size
from sluicegate.gateway.process.brokers import broker_folder, brokers_in
from sluicegate.gateway.views.node.backups import BackupState, BackupView
from sluicegate.gateway.views.node.spool import incarnation_text
from sluicegate.storage.backup.folder import NAME_ALLOWED, read_note
from sluicegate.storage.backup.restore import Restored, restore_backup
from sluicegate.storage.errors import StorageError

POLL_INTERVAL_S: Final = 0.2  # of the backup that the command waits for


def backup(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help=f"Name of the backup: {NAME_ALLOWED}. Default: the time in UTC."),
    ] = None,
    wait: Annotated[bool, typer.Option(help="Wait until the backup ends. Ctrl-C does not cancel it.")] = True,
    url: UrlOption = URL_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Back up the spool of the running gateway.

    The backup is a folder below the gateway's `backup.path`.
    """
    client = AdminClient(url)
    view = client.start_backup(name)
    with _progress() as progress:
        task = progress.add_task(view.name, total=view.expected_bytes)
        while wait and view.state == BackupState.RUNNING:
            time.sleep(POLL_INTERVAL_S)
            view = client.show_backup()
            progress.update(task, completed=view.written_bytes, total=max(view.expected_bytes, view.written_bytes))
    is_made = view.state in (BackupState.RUNNING, BackupState.DONE)
    if is_made or as_json:
        _show(view, as_json)
    if not is_made:
        raise CommandFailed(f"the backup was not made: {view.failure or view.state}")


def backup_status(url: UrlOption = URL_DEFAULT, as_json: JsonOption = False) -> None:
    """Show the progress of the latest backup."""
    _show(AdminClient(url).show_backup(), as_json)


def backup_cancel(url: UrlOption = URL_DEFAULT, as_json: JsonOption = False) -> None:
    """Cancel the running backup and remove its files. Exit code 1: none is running, or it finished first."""
    view = AdminClient(url).cancel_backup()
    if view.state != BackupState.CANCELLED:
        raise CommandFailed(f"no backup is running; the latest one: {_line(view)}")
    _show(view, as_json)


def restore(
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="Folder of the backup.")],
    config: ConfigOption = None,
    data: DataOption = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Restore a backup into an empty data folder. No gateway may run on that folder."""
    folder = loaded_config(config, data, settings).data.path
    restored: list[tuple[Path, Restored]] = []
    try:
        numbers = brokers_in(source)
        total = sum([read_note(broker_folder(source, number)).data_bytes for number in numbers])
        with _progress() as progress:
            task = progress.add_task("restore", total=total)
            for number in numbers:
                part = restore_backup(
                    broker_folder(source, number),
                    broker_folder(folder, number),
                    incarnation=secrets.randbits(64),
                    copied=lambda count: progress.update(task, advance=count),
                )
                restored.append((broker_folder(folder, number), part))
    except (StorageError, OSError) as error:
        text = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        raise CommandFailed(text, advice=_after_failure(restored, folder)) from None
    _show_restored(restored, source, as_json)


def _progress() -> Progress:
    """Return a progress bar on standard error; it shows nothing where that is not a terminal."""
    console = Console(stderr=True)
    columns = ("{task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _show(view: BackupView, as_json: bool) -> None:
    if as_json:
        print_json(view)
    else:
        typer.echo(_line(view))


def _line(view: BackupView) -> str:
    size = rounded_size(view.written_bytes)
    done = size if view.state == BackupState.DONE else f"{size} of about {rounded_size(view.expected_bytes)}"
    return f"{view.state}: {view.folder}, {done}{': ' if view.failure else ''}{view.failure}"


def _after_failure(restored: list[tuple[Path, Restored]], folder: Path) -> str:
    """Return what to do after a failure: what was restored of several brokers is no whole node."""
    if not restored:
        return "The backup is unchanged, and no spool was created."
    return (
        f"The backup is unchanged. Only {len(restored)} of its brokers are in {folder}: delete it, and restore again."
    )


def _show_restored(restored: list[tuple[Path, Restored]], source: Path, as_json: bool) -> None:
    """Show what was restored: of one broker an object, of several a list."""
    if as_json:
        documents = [_restored_document(source, folder, part) for folder, part in restored]
        print_json(documents[0] if len(documents) == 1 else documents)
        return
    for folder, part in restored:
        _show_restored_broker(part, source, folder)


def _restored_document(source: Path, folder: Path, restored: Restored) -> dict[str, object]:
    note = restored.note
    return {
        "backup": str(source),
        "data_path": str(folder),
        "node": note.node,
        "taken_ms": note.taken_ms,
        "data_bytes": note.data_bytes,
        "incarnation_before": incarnation_text(note.incarnation),
        "incarnation": incarnation_text(restored.incarnation),
    }


def _show_restored_broker(restored: Restored, source: Path, folder: Path) -> None:
    note = restored.note
    taken = time_text(note.taken_ms)
    typer.echo(f"restored {source} into {folder}: the spool of node {note.node} at {taken}")
    typer.echo(f"{rounded_size(note.data_bytes)}, checksum verified")
    typer.echo(
        f"incarnation {incarnation_text(restored.incarnation)} (was {incarnation_text(note.incarnation)}): "
        "positions that readers stored outside the spool are no longer valid"
    )
