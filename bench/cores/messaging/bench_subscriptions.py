"""Micro-benchmark of the subscription index: what one cache miss of a publisher costs.

Run with `python bench/cores/bench_subscriptions.py`, the repository's root on PYTHONPATH; for the compiled figures,
after a compiled build. Each row is the best of several rounds, for the machine's other work only ever adds time.
"""

from collections.abc import Callable
from time import perf_counter_ns
from typing import Final, NamedTuple

from sluicegate.messaging.topics import subscription_index as subscriptions
from sluicegate.messaging.topics.subscription_index import SubscriptionIndex
from sluicegate.messaging.topics.syntax import Syntax, TopicFilter, parse_filter

SUBSCRIPTION_COUNT: Final = 10_000
TOPIC_COUNT: Final = 1_000  # asked in turn, so that no single path stays in the processor's cache
ROUNDS: Final = 15


class Scenario(NamedTuple):
    """An index to fill and topics to ask it for."""

    name: str
    filters: list[str]
    syntax: Syntax
    topics: list[str]


def literal_filters() -> Scenario:
    """Every client subscribes to its own topic."""
    filters = [f"site/{number % 100}/device/{number}/command" for number in range(SUBSCRIPTION_COUNT)]
    return Scenario("literal filters", filters, Syntax.MQTT, spread(filters))


def device_trees() -> Scenario:
    """Every client subscribes to all topics below its device."""
    filters = [f"site/{number % 100}/device/{number}/#" for number in range(SUBSCRIPTION_COUNT)]
    topics = [text.replace("#", "sensor/temperature") for text in spread(filters)]
    return Scenario("device trees, a/b/c/d/#", filters, Syntax.MQTT, topics)


def single_levels() -> Scenario:
    """Wildcards in the first and in the middle levels, so that several branches stay alive."""
    filters = [f"+/{number % 100}/+/{number}/temperature" for number in range(SUBSCRIPTION_COUNT // 2)]
    filters += [f"site/+/device/{number}/+" for number in range(SUBSCRIPTION_COUNT // 2)]
    topics = [f"site/{number % 100}/device/{number}/temperature" for number in range(TOPIC_COUNT)]
    return Scenario("single levels, +/b/+/d/e", filters, Syntax.MQTT, topics)


def mixed(name: str, topics: list[str]) -> Scenario:
    """Two fifths literal filters, and wildcards of all kinds."""
    filters = [f"site/{number % 100}/device/{number}/temperature" for number in range(0, SUBSCRIPTION_COUNT, 5)]
    filters += [f"site/{number % 100}/device/{number}/humidity" for number in range(1, SUBSCRIPTION_COUNT, 5)]
    filters += [f"site/*/device/{number}/temperature" for number in range(2, SUBSCRIPTION_COUNT, 5)]
    filters += [f"site/{number % 100}/device/{number}/>" for number in range(3, SUBSCRIPTION_COUNT, 5)]
    filters += [f"site/{number % 100}/device/{number}*/*" for number in range(4, SUBSCRIPTION_COUNT, 5)]
    return Scenario(name, filters, Syntax.SMF, topics)


def fan_out() -> Scenario:
    """One topic that a tenth of the clients get."""
    filters = ["news/#"] * (SUBSCRIPTION_COUNT // 10)
    filters += [f"site/{number}/#" for number in range(SUBSCRIPTION_COUNT - len(filters))]
    return Scenario("fan-out to 1000 clients", filters, Syntax.MQTT, ["news/today"] * TOPIC_COUNT)


def spread(texts: list[str]) -> list[str]:
    """Return TOPIC_COUNT of the texts, evenly taken."""
    return texts[:: len(texts) // TOPIC_COUNT]


def best_ns(work: Callable[[], object], operation_count: int) -> float:
    """Return the nanoseconds of one operation in the best round."""
    best = 0
    for _ in range(ROUNDS):
        started_ns = perf_counter_ns()
        work()
        elapsed_ns = perf_counter_ns() - started_ns
        best = elapsed_ns if best == 0 else min(best, elapsed_ns)
    return best / operation_count


def filled(scenario: Scenario) -> tuple[SubscriptionIndex[int], list[TopicFilter]]:
    """Return the scenario's index, one key per filter, and its parsed filters."""
    index: SubscriptionIndex[int] = SubscriptionIndex()
    filters = [parse_filter(text, scenario.syntax) for text in scenario.filters]
    for key, topic_filter in enumerate(filters):
        index.add(topic_filter, key, key)
    return index, filters


def report(scenario: Scenario) -> None:
    """Measure one scenario and print its row."""
    index, filters = filled(scenario)
    match = index.match
    found = sum([len(match(topic)) for topic in scenario.topics]) / len(scenario.topics)
    match_ns = best_ns(lambda: [match(topic) for topic in scenario.topics], len(scenario.topics))

    def replace_all() -> None:
        for key, topic_filter in enumerate(filters):
            index.discard(topic_filter, key)
        for key, topic_filter in enumerate(filters):
            index.add(topic_filter, key, key)

    change_ns = best_ns(replace_all, 2 * len(filters))
    nodes = index.overview().node_count
    print(f"{scenario.name:<28}{found:>10.1f}{match_ns:>12.0f}{change_ns:>14.0f}{nodes:>10}")


def main() -> None:
    """Print the table."""
    form = "interpreted" if subscriptions.__file__.endswith(".py") else "compiled"
    print(f"SubscriptionIndex, {form}, {SUBSCRIPTION_COUNT} subscriptions")
    print(f"{'scenario':<28}{'found':>10}{'match ns':>12}{'add/drop ns':>14}{'nodes':>10}")
    hits = [f"site/{number % 100}/device/{number}/temperature" for number in range(TOPIC_COUNT)]
    misses = [f"plant/{number}/device/{number}/temperature" for number in range(TOPIC_COUNT)]
    for scenario in (
        literal_filters(),
        device_trees(),
        single_levels(),
        mixed("mixed kinds", hits),
        mixed("mixed kinds, no match", misses),
        mixed("mixed kinds, $SYS topic", [f"$SYS/{number}/x" for number in range(TOPIC_COUNT)]),
        fan_out(),
    ):
        report(scenario)


if __name__ == "__main__":
    main()
