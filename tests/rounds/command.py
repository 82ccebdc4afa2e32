"""The command: plays rounds, and prints a line for each.

    python -m rounds --rounds 50              # each failure in turn, in an order that is drawn
    python -m rounds --failure "cut owner"    # one of them only
    python -m rounds --seed 7 --rounds 1      # as in the line of a round

Clients go on from round to round, and so do the replicas and their data; after a round that failed all begins anew.
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import httpx

from rounds.balancer import Balancer
from rounds.failures import FAILURES, Failure, possible
from rounds.ledger import Account
from rounds.load import KINDS, Load, Unbalanced
from rounds.machines import Machines, NotWhole, keep_logs
from rounds.network import Loopback, Namespaces, Network
from support.processes.replicas import NAMES

BEFORE: Final = 20  # confirmations of each kind before a failure, and behind it
SERVERS: Final = ("n1", "n2", "n3")
# What fails a round. An operator's request is one of httpx, and `ip` and what else is run raise SubprocessError.
PROBLEMS: Final = (NotWhole, Unbalanced, AssertionError, OSError, httpx.HTTPError, subprocess.SubprocessError)


class Round(NamedTuple):
    """A round that was played."""

    failure: str
    account: Account
    problem: str  # empty: all was right


class Stage:
    """All that plays: processes, network, clients."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder
        self._undo: Final = ExitStack()
        try:
            network: Network = Namespaces(NAMES, SERVERS) if Namespaces.is_possible() else Loopback()
            self.machines: Final = self._undo.enter_context(Machines(folder, self._undo.enter_context(network)))
            targets = [replica.target() for replica in self.machines.replicas]
            self.load: Final = self._undo.enter_context(Load(self._undo.enter_context(Balancer(targets))))
        except BaseException:
            self._undo.close()
            raise

    def play(self, failure: Failure, draw: random.Random) -> Round:
        """Play one round."""
        load, ledger, problem = self.load, self.load.ledger, ""
        load.publish()
        try:
            load.until_served(BEFORE)
            ledger.begin()
            failure.fail(self.machines, load, draw)
            self.machines.start_ended()
            load.until_served(BEFORE)
            account = ledger.account()
            load.balance()
            self.machines.until_whole()
            tracebacks = [each.name for each in self.machines.replicas if "Traceback" in each.stderr]
            if tracebacks:
                problem = f"a traceback in the log of {', '.join(tracebacks)}"
        except PROBLEMS as error:
            account, problem = ledger.account(), f"{type(error).__name__}: {error}"
        return Round(failure.name, account, problem)

    def close(self) -> None:
        """End all."""
        self._undo.close()


def main() -> int:
    """Play rounds; return 1 when one of them failed."""
    options = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that all is undone on the way out
    draw = random.Random(options.seed)
    played: list[Round] = []
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rounds-") as folder:
        stage: Stage | None = None
        try:
            turns = _turns(options.failure, draw)
            for number in range(1, options.rounds + 1):
                if stage is None:
                    stage = Stage(Path(folder, str(number)))
                failure = next(turns)
                seed = draw.getrandbits(32)
                result = stage.play(failure, random.Random(seed))
                played.append(result)
                print(_line(number, seed, result), flush=True)
                if result.problem:
                    kept = options.logs / f"round-{number}-{result.failure.replace(' ', '-')}"
                    keep_logs(stage.folder, kept)
                    print(f"    {result.problem}\n    logs: {kept}", flush=True)
                    stage.close()
                    stage = None
        finally:
            _summarize(played, time.monotonic() - began_s)
            if stage is not None:
                stage.close()
    return int(any(each.problem for each in played))


def _turns(only: list[str], draw: random.Random) -> Iterator[Failure]:
    """Yield failures: all once in an order that is drawn, and again."""
    chosen = possible(cuts_servers=Namespaces.is_possible())
    if only:
        chosen = [each for each in chosen if each.name in only]
    while chosen:
        yield from draw.sample(chosen, len(chosen))


def _line(number: int, seed: int, result: Round) -> str:
    account = result.account
    silent = "  ".join(f"{kind} {account.silent_s.get(kind, 0.0):5.1f}" for kind in KINDS)
    counts = f"{account.confirmed:5} confirmed, {account.refused} refused, "
    counts += f"{account.received} received, {account.repeated} again"
    outcome = "FAILED" if result.problem else "balanced"
    return f"{number:3}  {seed:10}  {result.failure:24}  {silent} s  {counts}  {outcome}"


def _summarize(played: list[Round], took_s: float) -> None:
    failed = sum(1 for each in played if each.problem)
    print(f"\n{len(played)} rounds in {took_s:.0f} s, {failed} failed; seconds without a confirmation: median, longest")
    by_failure: defaultdict[str, list[Round]] = defaultdict(list)
    for each in played:
        by_failure[each.failure].append(each)
    print(f"| failure | rounds | {' | '.join(KINDS)} |\n|---|---|{'---|' * len(KINDS)}")
    for name in [each.name for each in FAILURES if each.name in by_failure]:
        rounds = by_failure[name]
        cells = []
        for kind in KINDS:
            silent = sorted(each.account.silent_s.get(kind, 0.0) for each in rounds)
            cells.append(f"{silent[len(silent) // 2]:.1f}, {silent[-1]:.1f}")
        print(f"| {name} | {len(rounds)} | {' | '.join(cells)} |")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rounds", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=len(FAILURES))
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of the failures and their times")
    names = [each.name for each in FAILURES]
    parser.add_argument("--failure", action="append", choices=names, default=[], help="this one only; may be repeated")
    parser.add_argument("--logs", type=Path, default=Path("build/rounds"), help="where logs of failed rounds are kept")
    return parser
