"""What runs of the benchmark come to: ratios round by round, the file that keeps them, picture and table of it."""

from pathlib import Path

import pytest

from bench.load.outcome import Faults, Figure, Outcome
from bench.markdown import rows
from bench.plot import draw
from bench.report import Run, ratios, read_files, read_json, write_json


def run(
    case: str,
    broker: str,
    value: float,
    *,
    round_number: int = 1,
    higher_is_better: bool = True,
    lost: int = 0,
) -> Run:
    outcome = Outcome(
        headline=Figure("rate", value, "1/s"),
        higher_is_better=higher_is_better,
        figures=(Figure("load", 90.0, "%"),),
        faults=Faults(lost=lost),
    )
    return Run(case, broker, round_number, outcome)


def test_a_ratio_above_one_says_that_the_first_is_better_whatever_is_measured() -> None:
    """Rates are better when they are higher, latencies and memory when they are lower."""
    runs = [
        run("rate", "ours", 30.0),
        run("rate", "theirs", 10.0),
        run("memory", "ours", 5.0, higher_is_better=False),
        run("memory", "theirs", 10.0, higher_is_better=False),
        run("memory", "theirs", 10.0, round_number=2, higher_is_better=False),
    ]
    assert [(ratio.case, ratio.worse, ratio.values) for ratio in ratios(runs)] == [
        ("rate", "theirs", (3.0,)),
        ("memory", "theirs", (2.0,)),
    ]


def test_runs_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    """The file is for comparing later."""
    runs = [run("rate", "ours", 30.0, lost=1), run("rate", "theirs", 10.0)]
    write_json(runs, tmp_path / "runs.json")
    assert read_json(tmp_path / "runs.json") == runs


def test_runs_of_several_files_are_rounds_one_after_the_other(tmp_path: Path) -> None:
    """A round of one file is not compared with a peer's of another."""
    write_json([run("rate", "ours", 30.0), run("rate", "theirs", 10.0)], tmp_path / "first.json")
    write_json([run("rate", "ours", 20.0), run("rate", "theirs", 4.0)], tmp_path / "second.json")
    found = read_files([tmp_path / "first.json", tmp_path / "second.json"])
    assert [(each.broker, each.round) for each in found] == [("ours", 1), ("theirs", 1), ("ours", 2), ("theirs", 2)]
    assert ratios(found)[0].values == (3.0, 5.0)


def test_a_table_has_a_row_for_each_case_of_the_first_broker_and_a_column_for_each_peer() -> None:
    """A peer that a case was not asked of has an empty cell; one round has one ratio."""
    runs = [run("pairs", "ours", 3_000.0), run("pairs", "theirs", 1_000.0), run("pairs", "amqtt", 10.0)]
    runs += [run("pairs", "ours", 5_000.0, round_number=2), run("pairs", "theirs", 1_000.0, round_number=2)]
    runs += [run("memory", "ours", 4.0, higher_is_better=False), run("memory", "amqtt", 2.0, higher_is_better=False)]
    assert rows(runs) == [
        "| case | ours | theirs | amqtt |",
        "| --- | --- | --- | --- |",
        "| `pairs` | 4,000 1/s | 3, 4, 5 | 300 |",
        "| `memory` | 4 1/s |  | 0.5 |",
    ]


def test_a_run_with_faults_comes_into_no_table() -> None:
    """A rate of messages that were lost says nothing."""
    runs = [run("pairs", "ours", 3.0), run("pairs", "theirs", 1.0, lost=2)]
    with pytest.raises(ValueError, match=r"round 1 of pairs on theirs has .*lost=2"):
        rows(runs)


def test_ratios_and_curves_have_a_panel_each(tmp_path: Path) -> None:
    """Cases that differ in the number at their end are a curve, from three on."""
    runs = [run(f"queues-{count}", broker, 10.0) for count in (1, 10, 100) for broker in ("ours", "theirs")]
    runs += [run("pairs-10-10", "ours", 5.0)]
    figure = draw(runs)
    figure.savefig(tmp_path / "plot.svg")
    bars, curve = figure.axes
    assert len(bars.patches) == 3
    assert curve.get_title() == "queues-N"
    assert len(curve.lines) == 2


def test_nothing_to_compare_is_no_picture() -> None:
    """One broker and one case: the table says it all."""
    with pytest.raises(ValueError, match="nothing to compare"):
        draw([run("rate", "ours", 30.0)])
