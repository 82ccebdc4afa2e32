"""Micro-benchmark of selectors: what asking one message costs, and what making a selector costs.

Run with `python bench/cores/bench_selectors.py`, the repository's root on PYTHONPATH; for the compiled figures, after a
compiled build. Each row is the best of several rounds.
"""

from time import perf_counter_ns
from typing import Final

from sluicegate.messaging.message.batch import AT_LEAST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.selectors import selector as selectors
from sluicegate.messaging.selectors.selector import Selectors

MESSAGES: Final = 1_000
ROUNDS: Final = 15
TEXTS: Final = (
    "color = 'red' AND weight > 2500",
    "color IN ('red', 'blue', 'green') OR weight BETWEEN 1 AND 10",
    "name LIKE 'J%n_s'",
    "JMSPriority > 3 AND JMSDeliveryMode = 'PERSISTENT'",
    "(weight - 100) * 2 > 4800 AND NOT (color = 'blue' OR note IS NOT NULL)",
    "convert_string_expressions:count > 10",
    " OR ".join([f"color = 'shade {number}'" for number in range(100)]),
)


def batch() -> MessageBatch:
    """Return messages with five properties; selectors use some of them."""
    headers = [
        Headers(
            user_properties=[
                ("site", "north"),
                ("color", "red" if number % 2 else "blue"),
                ("weight", 2000 + number),
                ("name", "Johannes"),
                ("count", str(number)),
            ]
        )
        for number in range(MESSAGES)
    ]
    return MessageBatch(
        topic="orders",
        topics=None,
        payloads=[b"x"] * MESSAGES,
        headers=list[Headers | None](headers),
        qos=AT_LEAST_ONCE,
        retain=False,
        publisher="p",
        received_ms=0,
        payload_bytes=MESSAGES,
    )


def report(text: str, messages: MessageBatch) -> None:
    """Measure one selector and print its row."""
    matches = Selectors({}).compile(text).matches
    rows = range(messages.count)
    ask_ns = 0
    make_ns = 0
    for _ in range(ROUNDS):
        started_ns = perf_counter_ns()
        for row in rows:
            matches(messages, row)
        asked_ns = perf_counter_ns()
        Selectors({}).compile(text)
        made_ns = perf_counter_ns()
        ask_ns = min(ask_ns or asked_ns - started_ns, asked_ns - started_ns)
        make_ns = min(make_ns or made_ns - asked_ns, made_ns - asked_ns)
    shown = text if len(text) <= 60 else text[:57] + "..."
    print(f"{shown:<62}{ask_ns / MESSAGES:>10.0f}{make_ns / 1000:>12.1f}")


def main() -> None:
    """Print the table."""
    form = "interpreted" if selectors.__file__.endswith(".py") else "compiled"
    print(f"Selectors, {form}")
    print(f"{'selector':<62}{'ask ns':>10}{'make us':>12}")
    messages = batch()
    for text in TEXTS:
        report(text, messages)


if __name__ == "__main__":
    main()
