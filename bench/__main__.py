"""`python -m bench`: run cases on brokers in turn, and print the results.

`--brokers mosquitto,mosquitto` compares a broker with itself, and so shows the noise of the machine.
"""

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

from rich.console import Console

from bench.brokers.broker import Broker, BrokerError, Cores, split_cores
from bench.brokers.known import BROKERS, installed, start
from bench.cases.load_processes import LoadError
from bench.cases.table import CASES, Case, Effort
from bench.load.http import HttpError
from bench.load.outcome import Faults
from bench.report import Run, print_runs, write_json
from bench.wire.amqp import AmqpError
from bench.wire.flow import FlowError
from bench.wire.mqtt import WireError


def main() -> int:
    """Run the requested cases; return 1 when a case failed, or a message was lost, repeated or disordered."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, _end)  # by an exception, so that brokers are stopped on the way out
    parser = _parser()
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 200)
    by_name = {case.name: case for case in CASES}
    unknown = [name for name in options.case if name not in by_name]
    if unknown:
        parser.error(f"no case {', '.join(unknown)}; there are {', '.join(by_name)}")
    chosen = [by_name[name] for name in options.case] or list(CASES)
    effort = Effort(
        seconds=options.seconds,
        workers=options.workers,
        connections=options.connections,
        waiting_messages=options.waiting,
        retained_messages=options.retained,
        spark_rows=options.spark_rows,
        timeout_s=options.timeout,
    )
    asked = options.brokers.split(",")
    if strangers := [kind for kind in asked if kind not in BROKERS]:
        parser.error(f"no broker {', '.join(strangers)}; there are {', '.join(BROKERS)}")
    labels = _labels(asked)
    broker_cores, load_cores = split_cores(frozenset(os.sched_getaffinity(0)), workers=effort.workers)
    os.sched_setaffinity(0, load_cores)
    runs: list[Run] = []
    failures = 0
    for case, round_number, label in _turns(chosen, options.rounds, labels):
        title = f"{case.name} {label} round {round_number}"
        try:
            with _running(case, labels[label], broker_cores, options.sluicegate) as broker:
                outcome = case.run(broker, effort)
        except (BrokerError, LoadError, WireError, AmqpError, FlowError, HttpError, OSError) as error:
            failures += 1
            console.print(f"{title}: {type(error).__name__}: {error}", highlight=False, markup=False)
            continue
        failures += outcome.faults != Faults()
        runs.append(Run(case.name, label, round_number, outcome))
        console.print(f"{title}: {outcome.headline.value:,.6g} {outcome.headline.unit}", highlight=False)
    print_runs(runs, console)
    if options.json is not None:
        write_json(runs, options.json)
    return int(failures > 0)


def _turns(cases: list[Case], rounds: int, labels: dict[str, str]) -> Iterator[tuple[Case, int, str]]:
    """Yield case, round and broker in the order of running: brokers alternate, so that drift hits all alike."""
    for case in cases:
        for round_number in range(1, rounds + 1):
            for label, kind in labels.items():
                if kind in case.kinds:
                    yield case, round_number, label


@contextmanager
def _running(case: Case, kind: str, cores: Cores, executable: Path | None) -> Iterator[Broker]:
    """Run a fresh broker on a temporary directory for the length of the block."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        broker = start(kind, Path(directory), cores, replace(case.conditions, executable=executable))
        try:
            yield broker
        finally:
            broker.stop()


def _labels(kinds: list[str]) -> dict[str, str]:
    """Return the kind of each broker by its label; a label is unique."""
    labels: dict[str, str] = {}
    for kind in kinds:
        earlier = sum(1 for known in labels.values() if known == kind)
        labels[f"{kind}#{earlier + 1}" if earlier else kind] = kind
    return labels


def _parser() -> argparse.ArgumentParser:
    width = max(len(case.name) for case in CASES)
    listing = "\n".join(f"  {case.name:<{width}}  {case.question}" for case in CASES)
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=f"{__doc__}\ncases:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    effort = Effort()
    spare_cores = max(1, (os.cpu_count() or 2) - 1)  # one is the broker's
    parser.add_argument("case", nargs="*", help="default: all of them")
    parser.add_argument(
        "--brokers",
        default=",".join(installed()),
        help="of " + ", ".join(BROKERS) + "; default: those that are installed. The first is compared with the others",
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=effort.seconds, help="measured time of a throughput case")
    parser.add_argument("--workers", type=int, default=spare_cores, help="processes that make the load")
    parser.add_argument("--connections", type=int, default=effort.connections, help="of the cases idle and storm")
    parser.add_argument("--waiting", type=int, default=effort.waiting_messages, help="messages of the case waiting")
    parser.add_argument("--retained", type=int, default=effort.retained_messages, help="of the case storm-retained")
    parser.add_argument("--spark-rows", type=int, default=effort.spark_rows, help="messages of the cases spark-*")
    parser.add_argument("--timeout", type=float, default=effort.timeout_s, help="seconds to fill or drain a backlog")
    parser.add_argument("--sluicegate", type=Path, help="executable; default: what this Python has")
    parser.add_argument("--json", type=Path, help="write every run to this file")
    return parser


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
