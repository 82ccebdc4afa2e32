"""Prints results as a table, and writes and reads them as JSON for later comparison."""

import json
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from bench.load.outcome import Faults, Figure, Outcome


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a case on one broker in one round."""

    case: str
    broker: str  # label: its kind, numbered when two of a kind are compared
    round: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times better the first broker was than another, round by round."""

    case: str
    better: str
    worse: str
    values: tuple[float, ...]


def ratios(runs: list[Run]) -> list[Ratio]:
    """Pair the first broker's runs with every other's of the same case and round."""
    found: list[Ratio] = []
    for case in dict.fromkeys(run.case for run in runs):
        of_brokers = by_broker([run for run in runs if run.case == case])
        first, *others = of_brokers
        for other in others:
            theirs = {run.round: run.outcome for run in of_brokers[other]}
            pairs = [(run.outcome, theirs[run.round]) for run in of_brokers[first] if run.round in theirs]
            if pairs:
                found.append(Ratio(case, first, other, tuple(ours.ratio_to(peer) for ours, peer in pairs)))
    return found


def print_runs(runs: list[Run], console: Console) -> None:
    """Print a row per case and broker, then the ratios."""
    table = Table(
        "case", "broker", "headline", "min", "median", "max", "lost", "twice", "disordered", "medians of the rest"
    )
    for case in dict.fromkeys(run.case for run in runs):
        for broker, theirs in by_broker([run for run in runs if run.case == case]).items():
            table.add_row(case, broker, *_cells([run.outcome for run in theirs]))
    console.print(table)
    compared = ratios(runs)
    if compared:
        table = Table("case", "ratio (above 1: the first is better)", "min", "median", "max")
        for ratio in compared:
            table.add_row(ratio.case, f"{ratio.better} / {ratio.worse}", *_spread(ratio.values))
        console.print(table)


def write_json(runs: list[Run], path: Path) -> None:
    """Write every run and every ratio."""
    content = {"runs": [asdict(run) for run in runs], "ratios": [asdict(ratio) for ratio in ratios(runs)]}
    path.write_text(json.dumps(content, indent=1) + "\n")


def read_json(path: Path) -> list[Run]:
    """Return the runs that `write_json` wrote."""
    return [
        Run(
            run["case"],
            run["broker"],
            run["round"],
            Outcome(
                headline=Figure(**run["outcome"]["headline"]),
                higher_is_better=run["outcome"]["higher_is_better"],
                figures=tuple(Figure(**figure) for figure in run["outcome"]["figures"]),
                faults=Faults(**run["outcome"]["faults"]),
            ),
        )
        for run in json.loads(path.read_text())["runs"]
    ]


def read_files(paths: list[Path]) -> list[Run]:
    """Return the runs of several files as if they had been one: the rounds of each follow those of the file before."""
    runs: list[Run] = []
    for path in paths:
        rounds_before = max([run.round for run in runs], default=0)
        runs += [replace(run, round=rounds_before + run.round) for run in read_json(path)]
    return runs


def by_broker(runs: list[Run]) -> dict[str, list[Run]]:
    """Return the runs of each broker, in the order in which the brokers came."""
    grouped: dict[str, list[Run]] = {}
    for run in runs:
        grouped.setdefault(run.broker, []).append(run)
    return grouped


def _cells(outcomes: list[Outcome]) -> list[str]:
    first = outcomes[0]
    rest = [
        f"{figure.name} {number(median([outcome.figures[index].value for outcome in outcomes]))} {figure.unit}"
        for index, figure in enumerate(first.figures)
    ]
    return [
        f"{first.headline.name}, {first.headline.unit}",
        *_spread(tuple(outcome.headline.value for outcome in outcomes)),
        *(str(sum(counts)) for counts in zip(*[astuple(outcome.faults) for outcome in outcomes], strict=True)),
        ", ".join(rest),
    ]


def _spread(values: tuple[float, ...]) -> tuple[str, str, str]:
    return number(min(values)), number(median(values)), number(max(values))


def number(value: float) -> str:
    """Return a figure with at least three significant digits, and without decimals from 100 on."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
