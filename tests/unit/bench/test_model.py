"""What the model of several brokers makes of measured costs."""

import pytest

from bench.load.outcome import Figure, Outcome
from bench.model import ALONE, MACHINES, busiest_share, checks, costs_of, predict, table
from bench.report import Run
from sluicegate.messaging.clients.homes import home_of

TWO, FOUR = MACHINES[2], MACHINES[4]


def run(case: str, broker: str, value: float, **figures: float) -> Run:
    named = tuple(Figure(name, each, "") for name, each in figures.items())
    return Run(case, broker, 1, Outcome(headline=Figure("", value, ""), higher_is_better=True, figures=named))


def link(case: str, local_us: float, here_us: float, there_us: float) -> Run:
    figures = {"local delivery": local_us, "publishers' broker": here_us, "subscribers' broker": there_us}
    return run(case, ALONE, (here_us + there_us) / local_us, **figures)


RUNS = [
    run("wakeup-qos0", ALONE, 100_000),  # 10 us
    run("wakeup-qos1", ALONE, 50_000, RSS=40),  # 20 us
    run("wakeup-qos1", TWO, 40_000, RSS=100),
    run("qos1-10-10", ALONE, 4_000_000),  # 0.25 us
    run("qos1-10-10", TWO, 3_000_000),
    link("link-wakeup-qos1", 20, 16, 12),  # 8 us more
    link("link-qos1", 0.25, 0.25, 0.1),  # 0.1 us more
    run("storm-connect", ALONE, 40),
    run("storm-connect", TWO, 60),  # half of the clients take 40 us more
    run("storm-topics", ALONE, 44),
    run("storm-topics", TWO, 70),  # 6 us for telling one broker
    run("link-idle", ALONE, 0.1),
]


def test_one_broker_costs_what_was_measured() -> None:
    found = predict(costs_of(RUNS), 1)
    assert found.message_us == {"wakeup-qos1": (20, 20), "qos1-10-10": (0.25, 0.25)}
    assert (found.connect_us, found.connect_and_tell_us, found.links, found.memory_mib) == (40, 44, 0, 0)
    assert found.per_second(20) == 50_000


def test_more_brokers_pass_more_and_tell_more() -> None:
    found = predict(costs_of(RUNS), 4)
    assert found.message_us["wakeup-qos1"] == (20 + 0.75 * 8, 20 + 0.75 * (8 + 10))
    assert found.message_us["qos1-10-10"] == pytest.approx((0.25 + 0.75 * 0.1,) * 2)
    assert found.connect_us == 40 + 0.75 * 40
    assert found.connect_and_tell_us == found.connect_us + 4 + 3 * 6
    assert (found.links, found.memory_mib) == (6, 3 * 60)
    assert found.links_load == pytest.approx(0.003)


def test_the_model_is_compared_with_each_machine_that_was_measured() -> None:
    runs = [*RUNS, run("storm-connect", FOUR, 72)]
    assert checks(costs_of(runs), runs) == [
        "`wakeup-qos1` on sluicegate-of-two: 24 to 24 us predicted, 25 us measured",
        "`qos1-10-10` on sluicegate-of-two: 0.3 to 0.3 us predicted, 0.333 us measured",
        "`storm-connect` on sluicegate-of-four: 70 us predicted, 72 us measured",
    ]


def test_a_case_that_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match="no run of storm-connect on sluicegate-of-two"):
        costs_of([each for each in RUNS if (each.case, each.broker) != ("storm-connect", TWO)])


@pytest.mark.parametrize(("clients", "brokers"), [(100, 4), (1_000, 16), (10_000, 16), (10_000, 64)])
def test_names_fill_brokers_as_unevenly_as_the_model_says(clients: int, brokers: int) -> None:
    """In the mean of some sets of names: the estimate of a greatest number is a little high."""
    ratios: list[float] = []
    for prefix in "abcdefgh":
        counts = [0] * (brokers + 1)
        for number in range(clients):
            counts[home_of(f"{prefix}-{number}", brokers)] += 1
        ratios.append(max(counts) * brokers / clients)
    above = sum(ratios) / len(ratios) - 1
    assert 0.5 * (busiest_share(clients, brokers) - 1) < above < busiest_share(clients, brokers) - 1


def test_the_table_has_a_column_for_each_machine() -> None:
    lines = table(costs_of(RUNS))
    assert {line.count("|") for line in lines} == {8}
