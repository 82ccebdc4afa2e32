"""Runs the steps of the demo in order, and prints their progress."""

import json
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from demo.analysis import Analysis
from demo.processes import gateway
from demo.readings import readings
from demo.traffic import SOURCE, TARGET, WORKERS, traffic
from sluicegate.pipeline.configuration import SessionSettings
from sluicegate.pipeline.jobs.audit.findings import AuditResult
from sluicegate.pipeline.spark.session import spark_session

MASTER: Final = "local[2,4]"


def show(folder: Path, console: Console, *, most: int | None = None) -> bool:
    """Run the demo in a folder, with at most so many readings of each sensor; return whether the audit is clean."""
    folder.mkdir(parents=True)
    measured = readings(most)
    total = sum(len(rows) for rows in measured.values())
    console.print(f"All files of this run are in [bold]{folder}[/]", soft_wrap=True)
    with gateway(folder) as urls:
        console.print("The gateway is up:", *(urls[name] for name in ("mqtt", "amqp", "flow")), soft_wrap=True)
        console.print(f"{len(measured)} devices publish {total:,} readings, {WORKERS} workers share them:")
        with _bars(console) as bars:
            published = bars.add_task(f"MQTT 5 devices -> {SOURCE}", total=total)
            worked_on = bars.add_task(f"AMQP 1.0 workers -> {TARGET}", total=total)
            traffic(
                urls,
                measured,
                folder,
                published=lambda count: bars.update(published, completed=count),
                worked_on=lambda count: bars.update(worked_on, completed=count),
                killed=lambda count: bars.console.print(f"  kill -9 of a worker, after {count:,} readings"),
            )
        console.print("Spark begins, makes weeks of the results, and archives both queues:")
        with spark_session("demo", SessionSettings(master=MASTER)) as spark:
            spark.sparkContext.setLogLevel("ERROR")
            analysis = Analysis(spark, folder)
            analysis.write_files(urls["flow"])
            with _bars(console) as bars:
                task = bars.add_task(f"{TARGET} -> weeks", total=total)
                analysis.aggregate("weekly", partial(_advance, bars, task))
                for name, queue in (("archive-in", SOURCE), ("archive-out", TARGET)):
                    task = bars.add_task(f"{queue} -> Parquet", total=total)
                    analysis.archive(name, partial(_advance, bars, task))
            console.print("The two archives are compared, message by message.")
            found = analysis.audit()
    _tell(console, found, folder)
    return found.is_clean


def _advance(bars: Progress, task: TaskID, line: str) -> None:
    bars.advance(task, json.loads(line)["rows"])


def _bars(console: Console) -> Progress:
    return Progress(
        TextColumn("  {task.description:<34}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )


def _tell(console: Console, found: AuditResult, folder: Path) -> None:
    table = Table(title="What the audit found", title_justify="left")
    table.add_column("messages")
    table.add_column("count", justify="right")
    for name, count in {"came in": found.sent_count, "came out": found.arrived_count, **found.wrong_counts}.items():
        table.add_row(name.replace("_", " "), f"{count:,}")
    console.print(table)
    verdict = "[green]clean[/]" if found.is_clean else "[red]not clean[/]"
    console.print(f"{verdict}; the report: {folder / 'audit.html'}", soft_wrap=True)
    console.print(f"What the weather was: {folder / 'weekly.html'}", soft_wrap=True)
    console.print(f"Again: sluicegate pipeline run audit --config {folder / 'audit.toml'}", soft_wrap=True)
