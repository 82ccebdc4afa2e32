"""Benchmark of brokers for tests: from their start to the first message that a client gets, in each place.

Run with `python bench/cores/bench_test_broker.py`, the repository's root on PYTHONPATH; for the compiled figures, after
a compiled build. The first broker of a run waits for imports, and has a process of its own here each time; those after
it are in one run. `--imports` lists the modules that take longest to import, by themselves.
"""

import argparse
import statistics
import subprocess
import sys
from time import perf_counter
from typing import Final

from sluicegate import BlockingClient, Message
from sluicegate.testing import Broker

ROUNDS: Final = 20
FIRST_ROUNDS: Final = 5
IMPORTS: Final = 15
PLACES: Final = ("process", "thread")
BROKER: Final = "sluicegate.testing.running.template"  # what a place imports
ANSWER_S: Final = 60.0


def start_to_delivery(place: str) -> tuple[float, float]:
    """Return the seconds until a broker takes traffic, and until a client has got a message by it."""
    began = perf_counter()
    with Broker(thread=place == "thread") as broker:
        started = perf_counter()
        broker.create_queue("orders", subscriptions=["orders/>"])
        with BlockingClient(broker.flow_url) as client, client.consumer("orders") as consumer:
            client.publish_direct(Message(b"hello", topic="orders/eu"), timeout_s=ANSWER_S)
            consumer.receive(timeout_s=ANSWER_S).accept()
            delivered = perf_counter()
    return started - began, delivered - began


def report(name: str, measured: list[tuple[float, float]]) -> None:
    """Print the median and the best of both times."""
    started, delivered = ([each[at] * 1000 for each in measured] for at in (0, 1))
    print(
        f"{name:<28} start {statistics.median(started):7.1f} ms (best {min(started):6.1f})"
        f"   to the first message {statistics.median(delivered):7.1f} ms (best {min(delivered):6.1f})",
        flush=True,
    )


def first_of_a_run(place: str) -> tuple[float, float]:
    """Return the times of the first broker in a process that has imported nothing of it."""
    done = subprocess.run([sys.executable, __file__, "--once", place], capture_output=True, text=True, check=True)
    started, delivered = map(float, done.stdout.split())
    return started, delivered


def report_imports() -> None:
    """Print the modules that take longest to import, and all of them together."""
    command = [sys.executable, "-X", "importtime", "-c", f"import {BROKER}"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()
    rows = [[part.strip() for part in line.partition(":")[2].split("|")] for line in lines]
    times = sorted(((int(own), name) for own, _, name in rows if own.isdecimal()), reverse=True)
    print(f"all {len(times)} modules {sum(own for own, _ in times) / 1000:.0f} ms")
    for own, name in times[:IMPORTS]:
        print(f"{name:<60} {own / 1000:6.1f} ms")


def main() -> None:
    """Measure both places."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--imports", action="store_true", help="measure imports, and nothing else")
    parser.add_argument("--once", choices=PLACES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.imports:
        report_imports()
    elif options.once:
        print(*start_to_delivery(options.once))
    else:
        for place in PLACES:
            report(f"{place}, first of a run", [first_of_a_run(place) for _ in range(FIRST_ROUNDS)])
            start_to_delivery(place)  # which imports
            report(f"{place}, {options.rounds} in a run", [start_to_delivery(place) for _ in range(options.rounds)])


if __name__ == "__main__":
    main()
