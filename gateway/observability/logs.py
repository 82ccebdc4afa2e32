"""Log lines on standard error: for people, or one JSON object a line for machines.

Structured values are passed as `extra`: `logger.info("client connected", extra={"client": name, "protocol": "mqtt5"})`.
The service manager or the container rotates and ships the lines.
"""

import logging
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Final, TextIO

import orjson

from sluicegate.gateway.config.sections.observability import Log
from sluicegate.gateway.views.text import printable, printable_json, quoted
from sluicegate.storage.environment.file_rights import FILE_MODE

LEVELS: Final[dict[str, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
log: Final = logging.getLogger("sluicegate.node")

HANDLER_NAME: Final = "sluicegate"
VALUE_CHARS_MAX: Final = 1000  # of one extra value; a client chooses some of them

_PAIR: Final = re.compile(r"[^\s=]=")
# The attributes of every record; all others come from the caller's `extra`.
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def set_up_logging(log: Log, *, broker: str = "", stream: TextIO | None = None) -> None:
    """Send all loggers to one stream. May be called again after a reload; the handler is replaced, not added.

    Each line says which `broker` wrote it, where several write to one stream. Raises OSError for an audit file that
    cannot be written; nothing has changed then.
    """
    says_who = SaysWho(broker) if broker else None
    _set_up_audit(log.audit_file, says_who)
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.set_name(HANDLER_NAME)
    handler.setFormatter(JsonLines() if log.format == "json" else TextLines())
    if says_who is not None:
        handler.addFilter(says_who)
    root = logging.getLogger()
    for old in [old for old in root.handlers if old.get_name() == HANDLER_NAME]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(LEVELS[log.level])
    # The libraries log starts and stops of the admin server, and two lines for each WebSocket handshake. The gateway's
    # own lines and counters say the same.
    for name in ("uvicorn", "websockets"):
        logging.getLogger(name).setLevel(max(LEVELS[log.level], logging.WARNING))


class SaysWho(logging.Filter):
    """Adds the name of the broker to each line."""

    def __init__(self, broker: str) -> None:
        super().__init__()
        self._broker = broker

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the name, and let the line pass."""
        vars(record).setdefault("broker", self._broker)
        return True


def _set_up_audit(file: Path | None, says_who: SaysWho | None) -> None:
    handlers = [] if file is None else [AuditFile(file)]
    audit = logging.getLogger("sluicegate.audit")
    audit.propagate = False
    audit.setLevel(logging.INFO)
    for old in list(audit.handlers):
        audit.removeHandler(old)
        with suppress(OSError):  # the disk is full, so the rest cannot be written: another file is configured for this
            old.close()
    for handler in handlers:
        if says_who is not None:
            handler.addFilter(says_who)
        audit.addHandler(handler)


class AuditFile(WatchedFileHandler):
    """The audit log's file, one JSON object a line. It notices when the file is rotated.

    If it cannot be written (its folder is gone, the disk is full), one line in the log says so, and lost lines are
    counted. Some of them are still in the buffer and are written once there is room. Raises OSError if the file cannot
    be opened.
    """

    def __init__(self, file: Path) -> None:
        super().__init__(file, encoding="utf-8", errors="backslashreplace")
        self.setFormatter(JsonLines())
        self._lost_count = 0
        self._has_failed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        self._has_failed = False
        try:
            super().emit(record)
        except OSError:  # the new file of a rotation cannot be opened
            self.handleError(record)
        if self._lost_count and not self._has_failed:
            log.warning("the audit log is written again; up to %d lines are missing", self._lost_count)
            self._lost_count = 0

    def _open(self) -> TextIOWrapper:
        """Open the file, for its owner and readers of its group only: it has users and their addresses."""
        made = open(self.baseFilename, self.mode, encoding=self.encoding, errors=self.errors, opener=_opener)  # noqa: SIM115
        assert isinstance(made, TextIOWrapper), "its mode is one of texts"
        return made

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # logging's name
        """Count a lost line, and go on."""
        self._has_failed = True
        self._lost_count += 1
        if self._lost_count == 1:
            log.error("the audit log cannot be written: %s", sys.exc_info()[1])

    def close(self) -> None:
        """Close the file, and log how many lines were lost: another file is in force, or the node ends."""
        missing, self._lost_count = self._lost_count, 0
        if missing:
            log.warning("the audit log %s is closed; up to %d lines are missing", self.baseFilename, missing)
        super().close()


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags, FILE_MODE)


class TextLines(logging.Formatter):
    """`2026-01-31T12:00:00.123Z INFO    gateway.node.node client connected client='c1'`

    What clients choose can forge no line and no pair. A value stands between two apostrophes, and none is within but
    behind a backslash. So does the text, if a pair could be read in it. Lines of a traceback are indented.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, and the traceback below it if there is one."""
        extra = "".join(f" {key}={quoted(_short(value))}" for key, value in _extra(record).items())
        said = record.getMessage()
        text = quoted(said) if _is_ambiguous(said) else printable(said)
        line = f"{_time(record)} {record.levelname:<7} {record.name} {text}{extra}"
        return f"{line}\n{_indented(self.formatException(record.exc_info))}" if record.exc_info else line


def _is_ambiguous(said: str) -> bool:
    """Tell whether a pair could be read in a text, or an apostrophe of it as the beginning of a value behind it."""
    return _PAIR.search(said) is not None or ("=" in said and said.count("'") % 2 == 1)


def _indented(traceback: str) -> str:
    return "\n".join(f"  {printable(each)}" for each in traceback.split("\n"))


class JsonLines(logging.Formatter):
    """One object a line: time, level, logger, message, the extra values, and the traceback as `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage().encode(errors="backslashreplace").decode(),
        }
        for key, value in _extra(record).items():
            line.setdefault(key, value if isinstance(value, bool | int | float | None) else _short(value))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return printable_json(orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode())


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _extra(record: logging.LogRecord) -> Mapping[str, object]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def _short(value: object) -> str:
    # Lone surrogates cannot be written as UTF-8, and a log line must never be what fails.
    text = str(value).encode(errors="backslashreplace").decode()
    return text if len(text) <= VALUE_CHARS_MAX else text[:VALUE_CHARS_MAX] + "..."
