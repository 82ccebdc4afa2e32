"""`sluicegate pipeline`: replace this process by the program for Spark jobs.

That program needs a JVM, and nothing of it is imported here. It handles signals itself and has its own exit codes
(`docs/data/pipeline.md`).
"""

import importlib.util
import os
import sys

import typer

from sluicegate.gateway.cli.terminal.failures import CommandFailed


def pipeline(ctx: typer.Context) -> None:
    """Run Spark jobs on queues. See `sluicegate pipeline --help`."""
    if importlib.util.find_spec("pyspark") is None:
        raise CommandFailed("PySpark is not installed", advice="Install it with pip install 'sluicegate[spark]'.")
    # -P: do not import from the current directory.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "sluicegate.pipeline", *ctx.args])
