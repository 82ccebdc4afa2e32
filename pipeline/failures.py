"""The reasons why a query ended: the text for operators, and whether to try again.

Errors of the data source are raised in other processes and arrive as text with a Python traceback, often inside a Java
one. So this module searches the text for their names; no other information is available.
"""

import re
from dataclasses import dataclass
from typing import Final, final

from py4j.protocol import Py4JJavaError

from sluicegate import ConnectFailed, RequestInterrupted

# Texts of temporary failures; all other failures are permanent.
GATEWAY_AWAY: Final = "the gateway was away"
HOST_TOO_BUSY: Final = "Python did not start within the ten seconds that Spark gives it, for its host is too busy"

_SAY_AWAY: Final = frozenset({ConnectFailed.__name__, RequestInterrupted.__name__})
_SAYS_BUSY: Final = "Python worker failed to connect back"

# How Python's tracebacks end: `package.module.Name: what`.
_RAISED: Final = re.compile(
    r"^(?:pyspark_sluicegate|protocols|sluicegate|pipeline)[\w.]*\.([A-Z]\w+): (.+)$", re.MULTILINE
)

# What Spark says of files that it cannot read, or not together; behind it come the frames of its stack.
_UNREADABLE: Final = re.compile(r"\[(?:CANNOT_MERGE_SCHEMAS|FAILED_READ_FILE)[.\w]*\] (.*?) SQLSTATE", re.DOTALL)


class JobFailed(Exception):
    """A job cannot continue, and another attempt would fail, too."""


@final
@dataclass(frozen=True)
class Failure:
    """The error that ended a query."""

    text: str  # one line
    passes: str | None  # why another attempt may succeed; None: it would not


def failure_of(error: Exception) -> Failure:
    """Return the failure behind an error of Spark or of this project."""
    name, text = type(error).__name__, str(error)
    raised = _RAISED.findall(text)
    if raised:
        name, text = raised[-1]
    passes = GATEWAY_AWAY if name in _SAY_AWAY else None
    if not raised and _SAYS_BUSY in text:
        passes = HOST_TOO_BUSY
    if not raised and isinstance(error, Py4JJavaError):  # what Spark has no exception of Python for
        thrown, _, text = str(error.java_exception).partition(": ")
        name = thrown.rpartition(".")[2]
    what = unreadable_by(error) or text.strip().partition("\n")[0]
    return Failure(f"{name}: {what}", passes)


def unreadable_by(error: Exception) -> str | None:
    """Return, in one line, why Spark cannot read files: a damaged file, or different types. None for other errors."""
    found = _UNREADABLE.search(str(error))
    return None if found is None else " ".join(found[1].split())
