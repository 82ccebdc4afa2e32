"""`python -m bench.instructions queues-10 queues-1000 ...`: processor instructions of one message, counted by valgrind.

A count repeats within one percent on a busy machine, where a time does not. It includes neither cache misses nor the
kernel's work. The cases are those of `bench.cores.node.bench_scaling`. The counted code is compiled where the installed
package is compiled. `--json` writes the file that `python -m bench.plot` draws.
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

_TOTALS: Final = re.compile(r"^totals: (\d+)", re.MULTILINE)


class CountError(Exception):
    """Nothing was counted."""


def main() -> int:
    """Count the requested cases, and print the results."""
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=__doc__)
    parser.add_argument("case", nargs="+", help="a number of one of these: " + ", ".join(FAMILIES))
    parser.add_argument("--json", type=Path, help="write the counts to this file")
    parser.add_argument("--profile", type=Path, help="keep what callgrind_annotate reads in this file; of one case")
    options = parser.parse_args()
    runs: list[Run] = []
    with tempfile.TemporaryDirectory() as folder:
        for case in options.case:
            try:
                counted = count(case, options.profile or Path(folder, "profile"))
            except (CountError, OSError) as error:
                parser.exit(1, f"{case}: {error}\n")
            unit = unit_of(case)
            headline = Figure(f"instructions per {unit}", counted, "instructions")
            runs.append(Run(case, "sluicegate", 1, Outcome(headline=headline, higher_is_better=False)))
            print(f"{case}: {counted:,.0f} instructions per {unit}", flush=True)
    if options.json is not None:
        write_json(runs, options.json)
    return 0


def count(case: str, profile: Path) -> float:
    """Return the instructions of a message. Raises CountError, and OSError where there is no valgrind."""
    valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={profile}"]
    command = [*valgrind, sys.executable, "-P", "-m", "bench.cores.node.bench_scaling", case, READY]
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
    found = _TOTALS.search(profile.read_text(errors="replace"))
    if found is None:
        raise CountError("callgrind wrote no totals")
    return int(found[1]) / int(messages)


if __name__ == "__main__":
    sys.exit(main())
