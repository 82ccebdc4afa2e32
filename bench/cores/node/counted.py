"""Measures what brokers of this process do for clients in another one, and tells a counting program when to count."""

import asyncio
import gc
import sys
import time
from asyncio.subprocess import PIPE

from bench.cores.node.bench_scaling import READY
from sluicegate.gateway.process.run import GC_THRESHOLDS


async def measured(module: str, arguments: list[str], count: int, *, told: bool) -> float:
    """Return microseconds of processor time for each of `count` pieces of work of the clients.

    `module` is run as `clients`, with the arguments: it writes a line when its warm-up is over, begins when it reads
    one, and writes another when it is done. `told` tells a counting program when to count.
    """
    clients = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, "clients", *arguments, stdin=PIPE, stdout=PIPE
    )
    assert clients.stdin is not None
    assert clients.stdout is not None
    await clients.stdout.readline()  # the warm-up is over
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    if told:
        tell(READY)
    began_ns = time.process_time_ns()
    clients.stdin.write(b"\n")
    if not await clients.stdout.readline():
        raise SystemExit("the clients have failed")
    taken_ns = time.process_time_ns() - began_ns
    if told:
        tell(str(count))
    clients.stdin.close()
    await clients.wait()
    return taken_ns / 1000 / count


def tell(line: str) -> None:
    """Tell a counting program, and wait until it has begun or ended."""
    print(line, flush=True)
    sys.stdin.readline()
