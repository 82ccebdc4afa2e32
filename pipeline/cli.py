"""`sluicegate pipeline`: the command line of jobs.

Exit codes: 0 done, or ended by SIGTERM or Ctrl-C; 1 done, with findings; 2 the command line or the file is wrong; 3 the
job failed, and another attempt would fail as well; 130, 143 a job without a stream was ended by Ctrl-C, SIGTERM.
"""

import json
import logging
import re
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, Protocol

import typer

from pyspark_sluicegate.options import OptionError, SourceOptions
from pyspark_sluicegate.reading.acknowledging import sweep
from pyspark_sluicegate.reading.checkpoint import CheckpointError
from pyspark_sluicegate.reading.offsets import OffsetError
from sluicegate import FlowClientError
from sluicegate.gateway.cli.terminal.failures import ReadGroup, show_flags
from sluicegate.pipeline.configuration import ArchiveJob, ConfigError, JobFile, load
from sluicegate.pipeline.failures import JobFailed
from sluicegate.pipeline.jobs.aggregate.job import AggregateJob, aggregate
from sluicegate.pipeline.jobs.archive import archive
from sluicegate.pipeline.jobs.audit.job import AuditJob, audit
from sluicegate.pipeline.jobs.compact.job import CompactJob, compact
from sluicegate.pipeline.jobs.dmq.job import DmqJob, dmq
from sluicegate.pipeline.jobs.presence.job import PresenceJob, presence
from sluicegate.pipeline.jobs.profile.job import ProfileJob, profile
from sluicegate.pipeline.jobs.replay import ReplayJob, replay
from sluicegate.pipeline.jobs.skew.job import SkewJob, skew
from sluicegate.pipeline.run.attempt import Trigger
from sluicegate.pipeline.run.job import BatchJob, Invocation, StreamingJob
from sluicegate.pipeline.run.places import StreamPlace, place_of, plan_of

USAGE: Final = 2
FATAL: Final = 3
INTERRUPTED: Final = 130  # by Ctrl-C, as shells have it
TERMINATED: Final = 143  # and by SIGTERM
UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}

_log: Final = logging.getLogger("pipeline")


class Job(Protocol):
    """A job, as the commands use it."""

    @property
    def does(self) -> str:
        """One line, for `list`."""

    def read(self, asked: Invocation) -> JobFile:
        """Return the checked configuration. Raises ConfigError."""

    def run(self, name: str, asked: Invocation) -> int:
        """Run; return the exit code. Raises ConfigError, JobFailed, CheckpointError."""


JOBS: Final[Mapping[str, Job]] = {
    "aggregate": StreamingJob[AggregateJob]("what comes into a queue, by windows of time", AggregateJob, aggregate),
    "archive": StreamingJob[ArchiveJob](
        "what comes into a queue, as Parquet files or a Delta table", ArchiveJob, archive
    ),
    "audit": BatchJob[AuditJob]("what came in against what came out: lost, duplicated, out of order", AuditJob, audit),
    "compact": BatchJob[CompactJob]("days of an archive that are over, as few large files", CompactJob, compact),
    "dmq": BatchJob[DmqJob]("what lies in a dead message queue and why, and what to do about it", DmqJob, dmq),
    "presence": BatchJob[PresenceJob]("who was connected when, by the gateway's events", PresenceJob, presence),
    "profile": BatchJob[ProfileJob]("what payloads are like, topic by topic", ProfileJob, profile),
    "replay": BatchJob[ReplayJob]("a part of an archive into a queue, or to topics, again", ReplayJob, replay),
    "skew": BatchJob[SkewJob]("which keys make a partition hot, and what more or fewer would do", SkewJob, skew),
}


JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="As `list` names them.")]
ConfigOption = Annotated[Path, typer.Option(metavar="FILE", help="The job's configuration, in TOML.")]
MasterOption = Annotated[str | None, typer.Option(metavar="URL", help="Where Spark runs; overrides the file.")]
CheckpointOption = Annotated[str | None, typer.Option(metavar="DIR", help="The folder of the job's checkpoint.")]

app = typer.Typer(
    name="sluicegate pipeline",
    cls=ReadGroup,
    help="Spark jobs over queues.",
    no_args_is_help=True,
    add_completion=False,  # a shell completes the commands of a program, and this is one of its commands
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command("list")
def list_jobs() -> None:
    """List the jobs."""
    for name, job in sorted(JOBS.items()):
        typer.echo(f"{name:10} {job.does}")


@app.command("run")
def run(
    name: JobArgument,
    config: ConfigOption,
    master: MasterOption = None,
    checkpoint: CheckpointOption = None,
    once: Annotated[bool, typer.Option("--once", help="Process the messages that are there now, and end.")] = False,
    every: Annotated[str | None, typer.Option(metavar="TIME", help="Make a batch every 500ms, 5s, 1m, 1h.")] = None,
) -> None:
    """Run a job. A job that reads a stream runs until it is ended: batch after batch, or at the interval of --every."""
    job = _job(name)
    if once and every is not None:
        raise typer.BadParameter("--once and --every exclude each other")
    if isinstance(job, BatchJob) and (once or every is not None or checkpoint is not None):
        raise typer.BadParameter(
            f"{name} works on what is there, and ends: --once, --every and --checkpoint are for jobs that read a stream"
        )
    trigger = Trigger(None if once else _interval_ms(every or "0ms"))
    asked = Invocation(file=config, master=master, checkpoint=checkpoint, trigger=trigger)
    with _errors_told():
        raise typer.Exit(job.run(name, asked))


@app.command("plan")
def plan(
    name: JobArgument,
    config: ConfigOption,
    master: MasterOption = None,
    checkpoint: CheckpointOption = None,
) -> None:
    """Print what a job would do, as JSON: its file with all defaults, its columns, the tasks of its next batch."""
    job = _job(name)
    with _errors_told():
        asked = Invocation(file=config, master=master, checkpoint=checkpoint, trigger=Trigger(None))
        found = plan_of(job.read(asked))
    typer.echo(json.dumps({"job": name, **found}, indent=2))


@app.command("status")
def status(config: ConfigOption, checkpoint: CheckpointOption = None) -> None:
    """Print the position of a job that reads a stream, as JSON: in its checkpoint, and of its cursor in the gateway."""
    with _errors_told():
        found = place_of(load(config, StreamPlace, checkpoint=checkpoint))
    typer.echo(json.dumps(found.figures(), indent=2))


@app.command("ack")
def ack(config: ConfigOption, checkpoint: CheckpointOption = None) -> None:
    """Acknowledge the batches that the checkpoint of a job records as done. The job must not run."""
    with _errors_told():
        found = load(config, StreamPlace, checkpoint=checkpoint)
        told_count = sweep(SourceOptions.of(found.source_options).connect, found.checkpoint)
    typer.echo("acknowledged" if told_count else "nothing is left to acknowledge")


show_flags(app)


def _job(name: str) -> Job:
    if name not in JOBS:
        raise typer.BadParameter(f"there is no job {name!r}; there are {', '.join(sorted(JOBS))}")
    return JOBS[name]


@contextmanager
def _errors_told() -> Iterator[None]:
    """Report the error that ends a command in one line, and exit with its code.

    Python exits with 1 for an unexpected error, or a dead Java process; here, 1 means that a job has findings.
    """
    try:
        yield
    except typer.Exit:
        raise
    except ConfigError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(USAGE) from None
    except (JobFailed, CheckpointError, OffsetError, OptionError, FlowClientError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(FATAL) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except Exception:
        _log.exception("the command failed with an unexpected error")
        raise typer.Exit(FATAL) from None


def _interval_ms(text: str) -> int:
    found = re.fullmatch(r"([0-9]{1,9})(ms|s|m|h)", text)
    if found is None:
        raise typer.BadParameter(f"--every is {text!r}; allowed are a whole number and ms, s, m or h, such as 5s")
    return int(found[1]) * UNIT_MS[found[2]]


def main() -> None:
    """Run the command and end the process with its exit code."""
    # Process 1, such as a job in a container, receives only signals that it handles. Jobs that read a stream install
    # their own handler.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(TERMINATED))
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it logs every callback
    app(prog_name="sluicegate pipeline")
