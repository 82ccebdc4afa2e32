"""A program for test_kill_while_staging: it stages and commits transactions without end on one data folder.

After its start it prints "found N ..." with every message of the queue, and "committed N" for each transaction whose
commit was answered. Each transaction has two parts, and the first part has a failed attempt. Numbers continue where the
queue ends. As a driver would, the program commits a transaction again that may have been decided before the kill.
"""

import asyncio
import sys
from pathlib import Path

from sluicegate.protocols.transport.loop import event_loop as socket_loop
from support.broker.inside_client import InsideClient
from support.broker.running_broker import RunningBroker

ROWS = 50  # per part
COMMITTED_BEFORE_THE_END = 10_000


async def main(folder: Path, first: int) -> None:
    """Run transactions numbered from `first`."""
    broker = RunningBroker(folder, ("spool.sync=true",))
    async with broker:
        orders = InsideClient(broker, "orders")
        if not await orders.exists():
            await orders.create(access_type="non-exclusive", partition_count=2, retention_size_mb=100)
        await orders.commit(f"t{first - 1}")  # what was decided is finished by now, or soon
        while (await orders.staging()).committing_count:
            await asyncio.sleep(0.01)
        found = [payload for partition in (0, 1) for payload in (await orders.read(partition=partition))[0].values()]
        print("found", *sorted(payload.decode() for payload in found), flush=True)
        for number in range(first, first + COMMITTED_BEFORE_THE_END):
            name = f"t{number}"
            await orders.stage(name, 0, *[b"%d/failed" % number] * ROWS, attempt=0)
            await orders.stage(name, 0, *[b"%d/0/%d" % (number, row) for row in range(ROWS)], attempt=1)
            await orders.stage(name, 1, *[b"%d/1/%d" % (number, row) for row in range(ROWS)])
            await orders.commit(name, (0, 1), (1, 0))
            print("committed", number, flush=True)


if __name__ == "__main__":
    socket_loop.run(main(Path(sys.argv[1]), int(sys.argv[2])))
