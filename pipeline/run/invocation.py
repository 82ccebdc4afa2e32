"""What the command line asks of a job, beside what its file says."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

from sluicegate.pipeline.run.trigger import Trigger


@final
@dataclass(frozen=True, kw_only=True)
class Invocation:
    """One `sluicegate pipeline run`."""

    file: Path
    master: str | None  # where Spark runs; None: as the file says
    checkpoint: str | None
    trigger: Trigger
