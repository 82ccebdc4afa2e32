"""`python -m bench.instructions queues-10 queues-1000 ...`: processor instructions of one message, counted by valgrind.

A count repeats within one percent on a busy machine, where a time does not. It includes neither cache misses nor the
kernel's work. The cases are those of `bench.cores.node.bench_scaling`, and more:

- `alone-0` to `alone-2`: a message of QoS 0, 1 or 2 that comes alone, of `bench.cores.node.bench_unbatched`. Of these
  only what the broker does is counted, without the program around it, but for its transports.
- `sockets-0`, `sockets-1`: the same over real sockets, with all of the process, of `bench.cores.node.bench_sockets`.
- `storm-1`, `storm-2` and so on: a client that connects with many others to so many brokers of one machine, of
  `bench.cores.node.bench_storm`. What all brokers and their loop do is counted.

The counted code is compiled where the installed package is compiled; for `alone` it has to be. `--cache` counts
accesses to memory too. `--json` writes the file that `python -m bench.plot` draws.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from bench.cores.node.bench_scaling import FAMILIES, READY, unit_of
from bench.load.outcome import Figure, Outcome
from bench.report import Run, write_json

_TOTALS: Final = re.compile(r"^totals: (.*)", re.MULTILINE)
ALONE: Final = "alone"
ALONE_MESSAGES: Final = 3000
SOCKETS: Final = "sockets"
SOCKETS_MESSAGES: Final = 3000
STORM: Final = "storm"
STORM_CLIENTS: Final = 2000
# Where the loop calls the broker.
_ENTRIES: Final = (
    "CPyPy_mqtt___connection___MqttConnection___received",
    "CPyPy_runtime___inbox___Dispatcher____turn",
)


class CountError(Exception):
    """Nothing was counted."""


def main() -> int:
    """Count the requested cases, and print the results."""
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=__doc__)
    parser.add_argument(
        "case", nargs="+", help="a number of one of these: " + ", ".join([*FAMILIES, ALONE, SOCKETS, STORM])
    )
    parser.add_argument(
        "--cache", action="store_true", help="count accesses to data, and misses of a first-level cache"
    )
    parser.add_argument("--json", type=Path, help="write the counts to this file")
    parser.add_argument("--profile", type=Path, help="keep what callgrind_annotate reads in this file; of one case")
    options = parser.parse_args()
    runs: list[Run] = []
    with tempfile.TemporaryDirectory() as folder:
        for case in options.case:
            try:
                events = count(case, options.profile or Path(folder, "profile"), cache=options.cache)
            except (CountError, OSError) as error:
                parser.exit(1, f"{case}: {error}\n")
            unit = "client" if case.startswith(STORM) else unit_of(case)
            headline = Figure(f"instructions per {unit}", events[0], "instructions")
            runs.append(Run(case, "sluicegate", 1, Outcome(headline=headline, higher_is_better=False)))
            told = f"{case}: {events[0]:,.0f} instructions per {unit}"
            if options.cache:  # Ir Dr Dw I1mr D1mr D1mw ...
                told += f", {events[1] + events[2]:,.0f} accesses to data, {events[4] + events[5]:,.1f} misses"
                told += f", {events[3]:,.1f} of code"
            print(told, flush=True)
    if options.json is not None:
        write_json(runs, options.json)
    return 0


def count(case: str, profile: Path, *, cache: bool) -> list[float]:
    """Return the events of a message, instructions first. Raises CountError, and OSError where there is no valgrind."""
    valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={profile}"]
    if cache:
        valgrind.append("--cache-sim=yes")
    program = ["bench.cores.node.bench_scaling", case, READY]
    if case.startswith(ALONE):
        valgrind += ["--collect-atstart=no", *[f"--toggle-collect={entry}" for entry in _ENTRIES]]
        program = ["bench.cores.node.bench_unbatched", case.rpartition("-")[2], str(ALONE_MESSAGES), "1", READY]
    elif case.startswith(SOCKETS):
        program = ["bench.cores.node.bench_sockets", case.rpartition("-")[2], str(SOCKETS_MESSAGES), READY]
    elif case.startswith(STORM):
        program = ["bench.cores.node.bench_storm", case.rpartition("-")[2], str(STORM_CLIENTS), READY]
    command = [*valgrind, sys.executable, "-P", "-m", *program]
    environment = os.environ | {"PYTHONHASHSEED": "0"}  # the order of sets, and with it the work, is the same each time
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        messages = ""
        for switch in ("on", "off"):  # before the measured messages, and behind them
            messages = process.stdout.readline()
            if not messages:
                raise CountError(process.stderr.read()[-2000:])
            subprocess.run(["callgrind_control", "-i", switch, str(process.pid)], check=True, capture_output=True)
            process.stdin.write("\n")
            process.stdin.flush()
        process.stdin.close()
        process.wait()
    counted = profile.read_text(errors="replace")
    found = _TOTALS.search(counted)
    if found is None:
        raise CountError("callgrind wrote no totals")
    if case.startswith(ALONE) and not all(entry in counted for entry in _ENTRIES):
        raise CountError("not all was called that is counted: the package is not compiled, or functions were renamed")
    return [int(each) / int(messages) for each in found[1].split()]


if __name__ == "__main__":
    sys.exit(main())
