"""`python -m bench.model runs.json ...`: what machines with more cores would carry, from costs that were measured.

The files are those that `python -m bench --json` wrote, of the cases

    wakeup-qos0 wakeup-qos1 qos1-10-10 link-wakeup-qos1 link-qos1 storm-connect storm-topics link-idle

on `sluicegate`, and of those without a link on `sluicegate-of-two` too, as a check, and on `sluicegate-of-four`.

**The model.** With N brokers, homes are random, so that 1 - 1/N of all messages cross a link, and 1 - 1/N of all
clients are accepted by another broker than their home.

- A message costs what it costs one broker, and if it crosses, what the case of the link costs beyond that. Messages
  that come one by one share writes to a link: the more links, the fewer share one. In the worst case each crossing
  message has a write and a read of its own, which cost no more than a whole message of QoS 0.
- A client costs what it costs one broker, and if it is passed, what two brokers have shown. Each subscription is told
  to N - 1 brokers; what telling one costs is known from clients with subscriptions of their own.
- Each link takes processor time when nothing crosses it, at both ends. There are N (N - 1) / 2.
- Each broker has a core. Load generators and the kernel's work outside of the processes have cores of their own.
- Clients are spread by their names. With few of them one broker has more than its share, and is full first.

The check compares the model with what two and four brokers were measured to cost. Their processor time counts, so
four need no four cores.
"""

import argparse
from dataclasses import dataclass
from math import log, sqrt
from pathlib import Path
from statistics import median
from typing import Final

from bench.report import Run, read_files

US: Final = 1e6
ALONE: Final = "sluicegate"
MACHINES: Final = {2: "sluicegate-of-two", 4: "sluicegate-of-four"}
CORES: Final = (1, 2, 4, 8, 16, 64)
CLIENTS: Final = 10_000  # over which the busiest broker's share is told
LINKED: Final = {"wakeup-qos1": "link-wakeup-qos1", "qos1-10-10": "link-qos1"}  # case, and the same over a link
ONE_BY_ONE: Final = "wakeup-qos1"  # whose messages share writes to a link only while there are few links
STORM: Final = "storm-connect"
TOPICS: Final = "storm-topics"


@dataclass(frozen=True)
class Costs:
    """Measured costs in microseconds of processor time, of all brokers together."""

    local: dict[str, float]  # by case: a message at one broker
    crossing: dict[str, float]  # by case: what a message costs more that crosses a link
    write: float  # a write to a link and its read, at most
    connect: float  # a client at one broker
    passing: float  # what a client costs more that is passed to its home
    own_topic: float  # what a client costs more with a subscription of its own, at one broker
    telling: float  # a subscription, for each broker that is told
    link_load: float  # of one broker's core, by one link that nothing crosses
    broker_mib: float  # resident memory that each further broker takes


def costs_of(runs: list[Run]) -> Costs:
    """Return the costs that runs have shown. Raises ValueError for a case that is missing."""
    local = {case: US / _headline(runs, case, ALONE) for case in LINKED}
    crossing = {case: _over_link(runs, link) for case, link in LINKED.items()}
    storm, storm_of_two = _headline(runs, STORM, ALONE), _headline(runs, STORM, MACHINES[2])
    topics, topics_of_two = _headline(runs, TOPICS, ALONE), _headline(runs, TOPICS, MACHINES[2])
    return Costs(
        local=local,
        crossing=crossing,
        write=US / _headline(runs, "wakeup-qos0", ALONE),
        connect=storm,
        passing=max(0.0, 2 * (storm_of_two - storm)),
        own_topic=max(0.0, topics - storm),
        telling=max(0.0, (topics_of_two - topics) - (storm_of_two - storm)),
        link_load=max(0.0, _headline(runs, "link-idle", ALONE)) / 100,
        broker_mib=_figure(runs, ONE_BY_ONE, MACHINES[2], "RSS") - _figure(runs, ONE_BY_ONE, ALONE, "RSS"),
    )


@dataclass(frozen=True)
class Prediction:
    """What a number of brokers costs and carries."""

    brokers: int
    message_us: dict[str, tuple[float, float]]  # by case: at least, and at most
    connect_us: float
    connect_and_tell_us: float  # each client with a subscription of its own
    links: int
    links_load: float  # of each broker's core
    busiest: float  # load of the busiest broker, in multiples of the mean
    memory_mib: float

    def per_second(self, cost_us: float) -> float:
        """Return how much the machine carries of what costs so much."""
        return self.brokers * (1 - self.links_load) * US / cost_us


def predict(costs: Costs, brokers: int) -> Prediction:
    """Return what the model says of a number of brokers, each with a core of its own."""
    elsewhere = 1 - 1 / brokers
    messages: dict[str, tuple[float, float]] = {}
    for case, local in costs.local.items():
        at_least = local + elsewhere * costs.crossing[case]
        # Saturated pairs fill their writes, however many links there are.
        own_writes = elsewhere * costs.write if case == ONE_BY_ONE and brokers > 2 else 0.0
        messages[case] = (at_least, at_least + own_writes)
    connect = costs.connect + elsewhere * costs.passing
    return Prediction(
        brokers,
        messages,
        connect,
        connect + costs.own_topic + (brokers - 1) * costs.telling,
        links=brokers * (brokers - 1) // 2,
        links_load=min(1.0, (brokers - 1) * costs.link_load),
        busiest=busiest_share(CLIENTS, brokers),
        memory_mib=(brokers - 1) * costs.broker_mib,
    )


def busiest_share(clients: int, brokers: int) -> float:
    """Return about how many clients the fullest of some brokers has, in multiples of the mean, when names decide.

    The numbers are binomial, and for many clients nearly normal: their greatest is sqrt(2 ln N) deviations above.
    """
    return 1 + sqrt(2 * log(brokers) * (brokers - 1) / clients)


def checks(costs: Costs, runs: list[Run]) -> list[str]:
    """Return how the model compares with the machines that were measured, a line for each case."""
    lines: list[str] = []
    for brokers, label in MACHINES.items():
        predicted = predict(costs, brokers)
        for case in LINKED:
            if _has(runs, case, label):
                low, high = predicted.message_us[case]
                lines.append(_check(case, label, f"{low:.3g} to {high:.3g}", US / _headline(runs, case, label)))
        for case, cost in ((STORM, predicted.connect_us), (TOPICS, predicted.connect_and_tell_us)):
            if brokers > 2 and _has(runs, case, label):  # costs of two are what the model is from
                lines.append(_check(case, label, f"{cost:.3g}", _headline(runs, case, label)))
    return lines


def table(costs: Costs) -> list[str]:
    """Return the predictions as a Markdown table."""
    found = [predict(costs, brokers) for brokers in CORES]
    lines = [
        "| brokers, a core each | " + " | ".join([str(each.brokers) for each in found]) + " |",
        "|---" * (1 + len(found)) + "|",
    ]
    for case in costs.local:
        lines.append(_row(f"`{case}`, us a message", [_range(*each.message_us[case]) for each in found]))
        rates = [[each.per_second(cost) for cost in reversed(each.message_us[case])] for each in found]
        lines.append(_row(f"`{case}`, a second", [_range(*each) for each in rates]))
    lines += [
        _row("a client connects, us", [_range(each.connect_us) for each in found]),
        _row("clients a second", [_range(each.per_second(each.connect_us)) for each in found]),
        _row("with a subscription of its own, us", [_range(each.connect_and_tell_us) for each in found]),
        _row("clients a second", [_range(each.per_second(each.connect_and_tell_us)) for each in found]),
        _row("links", [str(each.links) for each in found]),
        _row("of each core for idle links", [f"{each.links_load:.1%}" for each in found]),
        _row(f"busiest broker, of {CLIENTS:,} clients", [f"{each.busiest:.2f}" for each in found]),
        _row("more memory than one broker, MiB", [_range(each.memory_mib) for each in found]),
    ]
    return lines


def main() -> None:
    """Read the files, and print the table and the checks."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.model", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, help="what --json wrote; of several the runs are put together")
    options = parser.parse_args()
    try:
        runs = read_files(options.runs)
        costs = costs_of(runs)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    print("\n".join([*table(costs), "", *checks(costs, runs)]))


def _check(case: str, label: str, predicted: str, measured: float) -> str:
    return f"`{case}` on {label}: {predicted} us predicted, {measured:.3g} us measured"


def _row(name: str, cells: list[str]) -> str:
    return f"| {name} | " + " | ".join(cells) + " |"


def _range(low: float, high: float | None = None) -> str:
    """Return one number, or two that differ, with three significant digits."""
    texts = [f"{float(f'{value:.3g}'):,g}" for value in (low, low if high is None else high)]
    return texts[0] if texts[0] == texts[1] else " to ".join(texts)


def _has(runs: list[Run], case: str, label: str) -> bool:
    return any(run.case == case and run.broker == label for run in runs)


def _headline(runs: list[Run], case: str, label: str) -> float:
    found = [run.outcome.headline.value for run in runs if run.case == case and run.broker == label]
    if not found:
        raise ValueError(f"no run of {case} on {label}")
    return median(found)


def _figure(runs: list[Run], case: str, label: str, name: str) -> float:
    of_case = [run for run in runs if run.case == case and run.broker == label]
    found = [figure.value for run in of_case for figure in run.outcome.figures if figure.name == name]
    if not found:
        raise ValueError(f"no {name} of {case} on {label}")
    return median(found)


def _over_link(runs: list[Run], case: str) -> float:
    """Return what a message costs more that crosses a link, within the runs that measured both."""
    names = ("local delivery", "publishers' broker", "subscribers' broker")
    local, here, there = [_figure(runs, case, ALONE, name) for name in names]
    return max(0.0, here + there - local)


if __name__ == "__main__":
    main()
