"""Watch files that may be replaced while the node runs: certificates, CRLs, key sets, passwords; and schemas.

An orchestrator that rotates a secret writes a file and sends no signal. So the files are checked every few seconds, and
changed ones are read again. SIGHUP does the same at once, and takes over changed settings as well.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, final

from sluicegate.actors.runtime.runtime import TimerHandle
from sluicegate.gateway.config.model import Config

log = logging.getLogger("sluicegate.node")

LOOK_MS: Final = 10_000
SCHEMA_FILES_MAX: Final = 10_000  # of one folder, in the order of their names
UNUSABLE: Final = "%s changed, and cannot be used: %s"
IN_FORCE: Final = "%s changed, and is in force"

After = Callable[[int, Callable[[], object]], TimerHandle]
Seen = tuple[int, int, int] | None  # inode, size and time of change; None: the file does not exist


def secret_files(config: Config) -> list[Path]:
    """Return the files that a configuration names and others may replace, each once."""
    files: list[Path | None] = [account.password_file for _, account in config.accounts()]
    files += [vpn.authentication.oauth.jwks_file for vpn in config.message_vpns().values()]
    files += [vpn.authentication.http.secret_file for vpn in config.message_vpns().values()]
    files += [vpn.authentication.ldap.bind_password_file for vpn in config.message_vpns().values()]
    files.append(config.admin.oauth.jwks_file)
    for port in config.tls_ports().values():
        files += [port.certificate, port.key, port.client_ca, port.client_crl]
    return list(dict.fromkeys([file for file in files if file is not None]))


def look_at(config: Config) -> dict[Path, Seen]:
    """Return the present state of the files with secrets and keys of a configuration."""
    return {file: _seen(file) for file in secret_files(config)}


def look_at_schemas(config: Config) -> dict[Path, Seen]:
    """Return the present state of the files in the folder of schemas: a schema may refer to any of them."""
    folder = config.schemas.folder
    if folder is None or not config.has_payload_rules():
        return {}
    try:
        names = sorted(os.listdir(folder))[:SCHEMA_FILES_MAX]
    except OSError:
        return {folder: None}
    return {folder / name: _seen(folder / name) for name in names if not name.startswith(".")}


@final
class WatchedFiles:
    """The watched files of one node. An unusable file is logged, and its old contents stay in force."""

    def __init__(self, after: After, look: Callable[[], dict[Path, Seen]], read_again: Callable[[], None]) -> None:
        """`after` calls back after so many milliseconds. `look` returns the present state of the files."""
        self._after = after
        self._look = look
        self._read_again = read_again
        self._seen = look()
        self._timer: TimerHandle = after(LOOK_MS, self._tick)

    def follow(self, seen: dict[Path, Seen]) -> None:
        """Watch the files of another configuration. `seen` is their state before it was read."""
        self._seen = seen

    def look(self) -> None:
        """Have the files read again if one has changed."""
        before, now = self._seen, self._look()
        names = _changed(before, now)
        if not names:
            return
        self._seen = now
        try:
            self._read_again()
        except Exception as error:  # half a key pair, or a file being written: the next change is tried
            log.error(UNUSABLE, names, error)
        else:
            log.info(IN_FORCE, names)

    def end(self) -> None:
        """Stop watching."""
        self._timer.cancel()

    def _tick(self) -> None:
        self.look()
        self._timer = self._after(LOOK_MS, self._tick)


@final
class WatchedSchemas:
    """The watched schema files of one node. They may be thousands: a thread looks at them and reads them."""

    def __init__(
        self,
        after: After,
        seen: dict[Path, Seen],
        *,
        change_lock: asyncio.Lock,
        is_used: Callable[[], bool],
        look: Callable[[], Awaitable[dict[Path, Seen]]],
        read_again: Callable[[], Awaitable[None]],
    ) -> None:
        """`seen` is the state of the files before they were read first. `is_used` says whether there are rules.

        `change_lock` is that of reloads: what is read for one configuration is not put in force after another one.
        """
        self._after = after
        self._change_lock = change_lock
        self._is_used = is_used
        self._look = look
        self._read_again = read_again
        self._seen = seen
        self._looking: asyncio.Future[None] | None = None
        self._timer: TimerHandle = after(LOOK_MS, self._tick)

    def follow(self, seen: dict[Path, Seen]) -> None:
        """Watch the files of another configuration. `seen` is their state before it was read."""
        self._seen = seen

    async def look(self) -> None:
        """Have the files read again if one has changed."""
        async with self._change_lock:
            now = await self._look()
            names = _changed(self._seen, now)
            if not names:
                return
            self._seen = now
            try:
                await self._read_again()
            except Exception as error:  # a file being written: the next change is tried
                log.error(UNUSABLE, names, error)
            else:
                log.info(IN_FORCE, names)

    def end(self) -> None:
        """Stop watching. What is being read is not put in force."""
        self._timer.cancel()
        if self._looking is not None:
            self._looking.cancel()

    def _tick(self) -> None:
        if self._is_used():
            self._looking = asyncio.ensure_future(self._look_and_go_on())
        else:
            self._timer = self._after(LOOK_MS, self._tick)

    async def _look_and_go_on(self) -> None:
        try:
            await self.look()
        except Exception as error:  # no thread to be had: later there may be one
            log.error("schema files could not be looked at: %s", error)
        self._looking = None
        self._timer = self._after(LOOK_MS, self._tick)


def _changed(before: dict[Path, Seen], now: dict[Path, Seen]) -> str:
    """Return the names of the files that differ; empty if none does."""
    return ", ".join([str(file) for file in {**before, **now} if now.get(file) != before.get(file)])


def _seen(file: Path) -> Seen:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
