"""Why a query ended: what to tell operators, and whether to try again.

Errors of the data source are raised in other processes and come back as text with a traceback of Python, often inside
one of Java. So their names are looked for in the text; there is nothing else to go by.
"""

import re
from dataclasses import dataclass
from typing import Final, final

from sluicegate import ConnectFailed, RequestInterrupted

# They say that the gateway was away; whatever else is wrong stays wrong, however often it is tried.
TRANSIENT: Final = frozenset({ConnectFailed.__name__, RequestInterrupted.__name__})

# Spark gives a process of Python ten seconds to start and call back, which a busy host may not manage.
STARTED_TOO_SLOWLY: Final = "Python worker failed to connect back"

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
    is_transient: bool


def failure_of(error: Exception) -> Failure:
    """Return what an error of Spark, or of our own, means."""
    name, text = type(error).__name__, str(error)
    raised = _RAISED.findall(text)
    if raised:
        name, text = raised[-1]
    first_line = text.strip().partition("\n")[0]
    return Failure(f"{name}: {first_line}", name in TRANSIENT or STARTED_TOO_SLOWLY in first_line)
