"""`python -m demo`: the command line of the demo."""

import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from demo.processes import DemoFailed
from demo.show import show
from sluicegate.pipeline.failures import JobFailed


def main(
    folder: Annotated[Path, typer.Option(help="Parent of the folder of this run.")] = Path("build/demo"),
    most: Annotated[int | None, typer.Option(min=1, help="At most so many readings of each sensor.")] = None,
) -> None:
    """Show the whole path: devices, gateway, workers, archive, audit. Exits with 1 when the audit has findings."""
    run = folder.resolve() / datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    try:
        is_clean = show(run, Console(), most=most)
    except (DemoFailed, JobFailed) as failed:
        sys.exit(f"error: {failed}")
    sys.exit(0 if is_clean else 1)


typer.run(main)
