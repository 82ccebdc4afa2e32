"""An owner commits over three NATS servers, and ends between stream and store: its successor has all, and so has it."""

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from sluicegate.storage.errors import CommitInDoubt, CopyFailed, StoreFull
from sluicegate.storage.interface import CheckpointJob, CommitJob, Table, TableWrite
from sluicegate.storage.replication.jetstream import JetStream, connected
from sluicegate.storage.replication.log import ReplicatedLog
from sluicegate.storage.replication.replica import Append, Replica, first_message
from sluicegate.storage.store.owner import LoopThread, OwnedLog
from sluicegate.storage.store.replicated import LogRoom, ReplicatedStore
from support.processes.nats import NatsCluster
from support.processes.nats_streams import NAMES, stored, until_created
from support.storage.answers import WITHIN_S, answered
from support.storage.replicas import BEGIN, Following, content_of, opened

COMMITS = 10
LOG_BYTES = 64 << 20


class Owning:
    """An owner with its store, as a node uses it."""

    def __init__(self, folder: Path, loop: LoopThread, stream: JetStream, epoch: int = 1) -> None:
        self.store = opened(folder)
        self.log = ReplicatedLog(
            Replica("owner", "0"), stream, wall_ms=lambda: 0, take=lambda _: None, rng=random.Random(1)
        )
        while self.log.replica.begin is None:
            loop.run(answered(self.log.read))
        loop.run(self.log.take_over(epoch))
        self.owned = OwnedLog(self.store, self.log, loop)
        self.log_bytes = 0
        self.lost: list[str] = []
        room = LogRoom(LOG_BYTES, lambda: self.log_bytes)
        self.replicated = ReplicatedStore(self.store, self.owned, room, lost=self.lost.append)

    def job(self, number: int, *, uses_reserve: bool = False) -> CommitJob:
        row = TableWrite(Table.RETAINED, b"%d" % number, bytes(1 << (2 * number)))
        return CommitJob(number=self.owned.next_number(), table_writes=[row], uses_reserve=uses_reserve)


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture
def stream(servers: NatsCluster, loop: LoopThread) -> Iterator[JetStream]:
    client = loop.run(connected(servers.urls, WITHIN_S))
    made = JetStream(client, f"owned {next(NAMES)}")
    loop.run(until_created(made, LOG_BYTES))
    loop.run(stored(made, Append(0, first_message(BEGIN, 0))))
    yield made
    loop.run(client.close())


def broken(monkeypatch: pytest.MonkeyPatch, owning: Owning) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(owning.store._log, "append_copies", fails)


def test_a_record_that_only_the_stream_has_is_in_both_stores_later(
    loop: LoopThread, stream: JetStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Owning(tmp_path / "owner", loop, stream)
    for number in range(COMMITS):
        owner.owned.commit(owner.job(number))
    broken(monkeypatch, owner)
    with pytest.raises(CopyFailed):
        owner.owned.commit(owner.job(COMMITS))
    owner.store.close()

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


def test_an_owner_whose_own_disk_fails_is_the_owner_no_more_and_tells_publishers_nothing(
    loop: LoopThread, stream: JetStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Owning(tmp_path, loop, stream)
    broken(monkeypatch, owner)
    with pytest.raises(CommitInDoubt):
        owner.replicated.commit(owner.job(1))
    assert ["the stream has the record already" in reason for reason in owner.lost] == [True]
    owner.store.close()


def test_an_owner_that_another_replica_has_followed_tells_publishers_nothing(
    loop: LoopThread, stream: JetStream, tmp_path: Path
) -> None:
    owner = Owning(tmp_path / "owner", loop, stream)
    owner.replicated.commit(owner.job(1))
    successor = Following(tmp_path / "successor", stream, "successor")
    loop.run(answered(partial(successor.standby.resume, stream)))
    loop.run(successor.log.take_over(2))
    with pytest.raises(CommitInDoubt):
        owner.replicated.commit(owner.job(2))
    assert len(owner.lost) == 1
    assert content_of(successor.store).rows[Table.RETAINED].keys() == {b"1"}
    for each in (owner, successor):
        each.store.close()


def test_a_checkpoint_behind_an_epoch_leaves_the_last_record_to_go_on_with(
    loop: LoopThread, stream: JetStream, tmp_path: Path
) -> None:
    owner = Owning(tmp_path, loop, stream)
    owner.replicated.commit(owner.job(1))
    owner.store.close()
    again = Owning(tmp_path, loop, stream, epoch=2)
    epoch_number = again.replicated.recover().next_record_number - 1
    assert epoch_number > again.store.last_number
    again.replicated.checkpoint(CheckpointJob(applied=epoch_number, needed_from=epoch_number + 1))
    again.store.close()
    reopened = opened(tmp_path)
    assert content_of(reopened).quarantined_count == 0
    last = reopened.last_record()
    assert last is not None
    assert last.number == reopened.last_number == reopened.recover().applied
    reopened.close()


def test_a_log_that_is_nearly_full_takes_settlements_and_no_messages(
    loop: LoopThread, stream: JetStream, tmp_path: Path
) -> None:
    owner = Owning(tmp_path, loop, stream)
    owner.log_bytes = LOG_BYTES * 80 // 100
    assert owner.replicated.usage().is_log_full
    with pytest.raises(
        StoreFull, match="the log is full: 53687091 bytes of 67108864 are in use, of which messages may"
    ):
        owner.replicated.commit(owner.job(1))
    owner.replicated.commit(owner.job(1, uses_reserve=True))
    owner.log_bytes = LOG_BYTES * 95 // 100 + 1
    with pytest.raises(StoreFull, match="settlements may use 95 %"):
        owner.replicated.commit(owner.job(2, uses_reserve=True))
    owner.log_bytes = 0
    assert not owner.replicated.usage().is_log_full
    owner.replicated.commit(owner.job(2))
    owner.store.close()
