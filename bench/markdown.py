"""`python -m bench.markdown runs.json ...`: prints the results of `python -m bench --json` as a Markdown table.

A row has the first broker's median, and how many times as good it was as each of the others: minimum, median and
maximum of the rounds.
"""

import argparse
from pathlib import Path
from statistics import median

from bench.load.outcome import Faults
from bench.report import Run, by_broker, number, ratios, read_files


def main() -> None:
    """Read the files and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.markdown", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, help="what --json wrote; of several the runs are put together")
    options = parser.parse_args()
    try:
        print("\n".join(rows(read_files(options.runs))))
    except (OSError, ValueError) as error:
        parser.error(str(error))


def rows(runs: list[Run]) -> list[str]:
    """Return the lines of the table. Raises ValueError when there are no runs, or one has faults."""
    if not runs:
        raise ValueError("there are no runs")
    faulty = next((run for run in runs if run.outcome.faults != Faults()), None)
    if faulty is not None:
        raise ValueError(f"round {faulty.round} of {faulty.case} on {faulty.broker} has {faulty.outcome.faults}")
    first, *others = by_broker(runs)
    compared = {(ratio.case, ratio.worse): ratio.values for ratio in ratios(runs)}
    lines = [_line(["case", first, *others]), _line(["---"] * (2 + len(others)))]
    for case in dict.fromkeys(run.case for run in runs if run.broker == first):
        cells = [_spread(compared[case, other]) if (case, other) in compared else "" for other in others]
        lines.append(_line([f"`{case}`", _median([r for r in runs if (r.case, r.broker) == (case, first)]), *cells]))
    return lines


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _median(runs: list[Run]) -> str:
    headline = runs[0].outcome.headline
    return f"{number(median([run.outcome.headline.value for run in runs]))} {headline.unit}"


def _spread(values: tuple[float, ...]) -> str:
    shown = [min(values), median(values), max(values)] if len(values) > 1 else values
    return ", ".join(number(value) for value in shown)


if __name__ == "__main__":
    main()
