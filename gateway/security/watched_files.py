"""Watch files with secrets and keys that may be replaced while the node runs: certificates, CRLs, key sets, passwords.

An orchestrator that rotates a secret writes a file and sends no signal. So the files are checked every few seconds, and
changed ones are read again. SIGHUP does the same at once, and takes over changed settings as well.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from sluicegate.actors.runtime.runtime import TimerHandle
from sluicegate.gateway.config.model import Config

log = logging.getLogger("sluicegate.node")

LOOK_MS: Final = 10_000

After = Callable[[int, Callable[[], object]], TimerHandle]
Seen = tuple[int, int, int] | None  # inode, size and time of change; None: the file does not exist


def secret_files(config: Config) -> list[Path]:
    """Return the files that a configuration names and others may replace, each once."""
    files: list[Path | None] = [account.password_file for _, account in config.accounts()]
    files += [vpn.authentication.oauth.jwks_file for vpn in config.message_vpns().values()]
    files.append(config.admin.oauth.jwks_file)
    for port in config.tls_ports().values():
        files += [port.certificate, port.key, port.client_ca, port.client_crl]
    return list(dict.fromkeys([file for file in files if file is not None]))


def look_at(config: Config) -> dict[Path, Seen]:
    """Return the present state of the files of a configuration."""
    return {file: _seen(file) for file in secret_files(config)}


@final
class WatchedFiles:
    """The watched files of one node. An unusable file is logged, and its old contents stay in force."""

    def __init__(self, after: After, config: Config, read_again: Callable[[], None]) -> None:
        """`after` calls back after so many milliseconds."""
        self._after = after
        self._read_again = read_again
        self._seen = look_at(config)
        self._timer: TimerHandle = after(LOOK_MS, self._tick)

    def follow(self, seen: dict[Path, Seen]) -> None:
        """Watch the files of another configuration. `seen` is their state before it was read."""
        self._seen = seen

    def look(self) -> None:
        """Have the files read again if one has changed."""
        changed = [file for file, before in self._seen.items() if _seen(file) != before]
        if not changed:
            return
        self._seen |= {file: _seen(file) for file in changed}
        names = ", ".join(str(file) for file in changed)
        try:
            self._read_again()
        except Exception as error:  # half a key pair, or a file being written: the next change is tried
            log.error("%s changed, and cannot be used: %s", names, error)
        else:
            log.info("%s changed, and is in force", names)

    def end(self) -> None:
        """Stop watching."""
        self._timer.cancel()

    def _tick(self) -> None:
        self.look()
        self._timer = self._after(LOOK_MS, self._tick)


def _seen(file: Path) -> Seen:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
