"""Why a query ended: what to tell operators, and whether to try again.

Errors of the data source are raised in other processes and come back as text with a traceback of Python, often inside
one of Java. So their names are looked for in the text; there is nothing else to go by.
"""

import re
from dataclasses import dataclass
from typing import Final, final

from sluicegate import ConnectFailed, RequestInterrupted

# What passes by itself, in words; whatever else is wrong stays wrong, however often it is tried.
GATEWAY_AWAY: Final = "the gateway was away"
HOST_TOO_BUSY: Final = "Python did not start within the ten seconds that Spark gives it, for its host is too busy"

_SAY_AWAY: Final = frozenset({ConnectFailed.__name__, RequestInterrupted.__name__})
_SAYS_BUSY: Final = "Python worker failed to connect back"

# How Python's tracebacks end: `package.module.Name: what`.
_RAISED: Final = re.compile(
    r"^(?:pyspark_sluicegate|protocols|sluicegate|pipeline)[\w.]*\.([A-Z]\w+): (.+)$", re.MULTILINE
)


class JobFailed(Exception):
    """A job cannot go on, and trying again is of no use."""


@final
@dataclass(frozen=True)
class Failure:
    """What ended a query."""

    text: str  # one line
    passes: str | None  # why it is worth another try; None: it is not


def failure_of(error: Exception) -> Failure:
    """Return what an error of Spark, or of our own, means."""
    name, text = type(error).__name__, str(error)
    raised = _RAISED.findall(text)
    if raised:
        name, text = raised[-1]
    passes = GATEWAY_AWAY if name in _SAY_AWAY else None
    if not raised and _SAYS_BUSY in text:
        passes = HOST_TOO_BUSY
    first_line = text.strip().partition("\n")[0]
    return Failure(f"{name}: {first_line}", passes)
