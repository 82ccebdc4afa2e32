"""Doctor, backup, restore and salvage of a machine with several brokers: none of them forgets a spool."""

import os
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from sluicegate.gateway.cli.terminal.failures import FAILED
from sluicegate.gateway.process.brokers import broker_folder, broker_place
from sluicegate.messaging.queues.definition import definition_from_dict
from sluicegate.storage.backup.backup import Backup
from sluicegate.storage.backup.folder import PARTIAL_FILE
from sluicegate.storage.catalog.queues import StoredQueue, queue_row
from sluicegate.storage.environment.folder_lock import DATA_FILE
from sluicegate.storage.interface import CommitJob, Table, TableWrite
from sluicegate.storage.store.store import SpoolStore
from support.operations.shell import Shell
from support.storage.sample_records import publish_job
from support.storage.store_work import checkpoint, commit

MIB = 1 << 20
NUMBERS = (1, 2, 3)


@pytest.fixture
def shell() -> Shell:
    return Shell("")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data folder of three brokers that have stopped, each with a message."""
    for number in NUMBERS:
        store = store_in(broker_folder(tmp_path / "data", number))
        store.commit(publish_job(1))
        checkpoint(store)
        store.mark_clean()
        store.close()
    return tmp_path / "data"


@pytest.fixture
def backup(data: Path, tmp_path: Path) -> Path:
    """A backup of the three."""
    folder = tmp_path / "backups" / "b"
    for number in NUMBERS:
        makes_backup(data, folder, number)
    return folder


def store_in(folder: Path) -> SpoolStore:
    return SpoolStore.open(folder, map_bytes_max=16 * MIB, reserve_bytes=MIB)


def makes_backup(data: Path, folder: Path, number: int) -> None:
    store = store_in(broker_folder(data, number))
    node = f"edge-{number}"
    Backup(store, folder, incarnation=number, taken_ms=1, node=node, release="1", place=broker_place(number)).run()
    store.close()


def examined(shell: Shell, *arguments: str, healthy: bool = True) -> dict[str, dict[str, object]]:
    small = ("--set", "spool.map_bytes_max=16MiB", "--set", "spool.usage_bytes_max=8MiB")
    answer: dict[str, dict[str, object]] = orjson.loads(
        (shell.run if healthy else shell.told)("doctor", *arguments, *small, "--json")
    )
    return answer


def damages(folder: Path) -> None:
    content = bytearray((folder / DATA_FILE).read_bytes())
    content[-1] ^= 1
    (folder / DATA_FILE).write_bytes(content)


def subjects(answer: dict[str, dict[str, object]]) -> Iterator[str]:
    return (each["subject"] for each in answer["findings"])  # type: ignore[index]  # a list, by the command


def test_the_doctor_examines_every_spool_and_says_whose_it_is(shell: Shell, data: Path) -> None:
    looked_at = examined(shell, "--data", str(data))["looked_at"]
    assert looked_at["data folder"] == str(data)
    assert looked_at["broker 2: data folder"] == str(data / "brokers" / "2")
    assert looked_at["broker 3: data folder"] == str(data / "brokers" / "3")

    os.truncate(data / "brokers" / "3" / DATA_FILE, 4096)
    assert any(each.startswith("broker 3: ") for each in subjects(examined(shell, "--data", str(data), healthy=False)))


def test_the_doctor_knows_that_brokers_of_a_machine_are_linked(shell: Shell, data: Path) -> None:
    """Nobody is told to forget one: its messages would be lost."""
    store = store_in(broker_folder(data, 2))
    names = (b"sluicegate", b"sluicegate-3", b"gone")
    commit(store, rows=[TableWrite(Table.SESSIONS, b"link-lineage/" + name, bytes(16)) for name in names])
    store.close()
    found = subjects(examined(shell, "--data", str(data), "--set", "brokers=3"))
    assert [each for each in found if "neighbor" in each] == ["broker 2: message VPN default: neighbor gone"]


@pytest.mark.parametrize(
    ("brokers", "retired"),
    [("brokers=2", "sluicegate-3: "), ("node.name=edge", "edge-2, edge-3: "), ("brokers=3", None)],
)
def test_the_doctor_says_which_brokers_a_start_would_retire(
    shell: Shell, data: Path, brokers: str, retired: str | None
) -> None:
    found = examined(shell, "--data", str(data), "--set", brokers)["looked_at"].get("a start retires")
    assert found == (None if retired is None else f"{retired}what they have moves to the other brokers")


def test_a_backup_of_several_is_examined_and_restored_as_a_whole(shell: Shell, backup: Path, tmp_path: Path) -> None:
    checked = examined(shell, "--backup", str(backup))["looked_at"]
    assert [name for name in checked if name.endswith("checksum")] == [
        "checksum",
        "broker 2: checksum",
        "broker 3: checksum",
    ]

    restored = orjson.loads(shell.run("restore", str(backup), "--data", str(tmp_path / "new"), "--json"))
    assert [each["node"] for each in restored] == ["edge-1", "edge-2", "edge-3"]
    assert [Path(each["data_path"]) for each in restored] == [
        broker_folder(tmp_path / "new", number) for number in NUMBERS
    ]
    assert len({each["incarnation"] for each in restored}) == len(NUMBERS)
    for number in NUMBERS:
        store_in(broker_folder(tmp_path / "new", number)).close()


def test_a_backup_of_several_with_a_damaged_part_is_not_taken_for_a_whole_one(
    shell: Shell, backup: Path, tmp_path: Path
) -> None:
    damages(broker_folder(backup, 3))
    assert any(
        each.startswith("broker 3: ") for each in subjects(examined(shell, "--backup", str(backup), healthy=False))
    )

    told = shell.run("restore", str(backup), "--data", str(tmp_path / "new"), expect=FAILED)
    assert "is damaged: its checksum" in told
    assert "Only 2 of its brokers are in" in told


def test_a_backup_without_a_part_is_refused_before_anything_is_restored(
    shell: Shell, backup: Path, tmp_path: Path
) -> None:
    (broker_folder(backup, 2) / DATA_FILE).unlink()
    told = shell.run("restore", str(backup), "--data", str(tmp_path / "new"), expect=FAILED)
    assert "no spool was created" in told
    assert not (tmp_path / "new").exists()


def test_each_broker_removes_its_own_leftovers_only(data: Path, tmp_path: Path) -> None:
    dead = tmp_path / "backups" / "dead"
    for number in (1, 2):
        broker_folder(dead, number).mkdir(parents=True)
        (broker_folder(dead, number) / PARTIAL_FILE).write_bytes(b"half")
    makes_backup(data, tmp_path / "backups" / "b", 1)
    assert [str(path.relative_to(dead)) for path in dead.rglob(PARTIAL_FILE)] == [f"brokers/2/{PARTIAL_FILE}"]
    makes_backup(data, tmp_path / "backups" / "b", 2)
    assert list(dead.rglob(PARTIAL_FILE)) == []


def test_salvage_copies_what_is_readable_of_every_spool(shell: Shell, data: Path, tmp_path: Path) -> None:
    answer = orjson.loads(shell.run("doctor", "--data", str(data), "--salvage", str(tmp_path / "new"), "--json"))
    assert answer["healthy"]
    for number in NUMBERS:
        store_in(broker_folder(tmp_path / "new", number)).close()


def test_a_dead_message_queue_at_another_broker_is_not_missing(shell: Shell, data: Path) -> None:
    def stores(number: int, *names: str) -> None:
        definitions = [definition_from_dict({"name": name}) for name in names]
        rows = [queue_row(StoredQueue(each, "named", [], None, None)) for each in definitions]
        store = store_in(broker_folder(data, number))
        store.commit(CommitJob(number=2, table_writes=rows))
        store.close()

    stores(2, "orders")
    assert any("#DEAD_MSG_QUEUE" in each for each in subjects(examined(shell, "--data", str(data))))
    stores(3, "#DEAD_MSG_QUEUE")
    assert not any("#DEAD_MSG_QUEUE" in each for each in subjects(examined(shell, "--data", str(data))))
