"""`sluicegate pipeline`: the program for Spark jobs takes this process over.

Jobs stand above the gateway and bring a JVM along; nothing of them is imported here. They take signals and end with
exit codes of their own (`docs/pipeline.md`).
"""

import importlib.util
import os
import sys

import typer

from sluicegate.gateway.cli.terminal.failures import CommandFailed


def pipeline(ctx: typer.Context) -> None:
    """Run jobs of Spark over queues. `sluicegate pipeline --help` tells more."""
    if importlib.util.find_spec("pyspark") is None:
        raise CommandFailed("PySpark is not installed", advice="pip install 'sluicegate[spark]' brings it.")
    # -P: a folder `pipeline` where it is called must not be taken for ours.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "sluicegate.pipeline", *ctx.args])
