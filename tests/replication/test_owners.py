"""An owner commits over three NATS servers, and ends between stream and store: its successor has all, and so has it."""

import random
from functools import partial
from pathlib import Path

import pytest

from sluicegate.storage.errors import CommitInDoubt
from sluicegate.storage.interface import CommitJob, Table, TableWrite
from sluicegate.storage.replication.jetstream import JetStream, connected
from sluicegate.storage.replication.log import ReplicatedLog
from sluicegate.storage.replication.replica import Append, Replica, first_message
from sluicegate.storage.store.owner import LoopThread, OwnedLog
from support.processes.nats import NatsCluster
from support.processes.nats_streams import NAMES, stored, until_created
from support.storage.replicas import BEGIN, Following, answered, content_of, opened

COMMITS = 10


def test_a_record_that_only_the_stream_has_is_in_both_stores_later(
    servers: NatsCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = LoopThread()
    client = loop.run(connected(servers.urls))
    stream = JetStream(client, f"owned {next(NAMES)}")
    loop.run(until_created(stream, 64 << 20))
    loop.run(stored(stream, Append(0, first_message(BEGIN, 0))))
    store = opened(tmp_path / "owner")
    log = ReplicatedLog(Replica("owner", "0"), stream, wall_ms=lambda: 0, take=lambda _: None, rng=random.Random(1))
    while log.replica.begin is None:
        loop.run(answered(log.read))
    loop.run(log.take_over(1))
    owned = OwnedLog(store, log, loop)

    def job(number: int) -> CommitJob:
        row = TableWrite(Table.RETAINED, b"%d" % number, bytes(1 << (2 * number)))
        return CommitJob(number=owned.next_number(), table_writes=[row])

    for number in range(COMMITS):
        owned.commit(job(number))

    def fails(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(store._log, "append", fails)
    with pytest.raises(CommitInDoubt):
        owned.commit(job(COMMITS))
    store.close()

    successor = Following(tmp_path / "successor", stream, "successor")
    loop.run(answered(partial(successor.standby.resume, stream)))
    loop.run(successor.log.take_over(2))
    rows = content_of(successor.store).rows[Table.RETAINED]
    assert rows.keys() == {b"%d" % number for number in range(COMMITS + 1)}
    returned = Following(tmp_path / "owner", stream, "owner")
    loop.run(answered(partial(returned.standby.resume, stream)))
    loop.run(returned.read_all())
    assert content_of(returned.store) == content_of(successor.store)
    for each in (successor, returned):
        each.store.close()
    loop.run(client.close())
    loop.close()
