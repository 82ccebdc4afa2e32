"""Backups of a real gateway under load hold every confirmed message, in order and once; a restored one serves."""

import os
from collections import defaultdict
from pathlib import Path

import orjson
import pytest

from sluicegate.messaging.message.vpn import DEFAULT_VPN
from sluicegate.storage.backup.folder import PARTIAL_FILE
from sluicegate.storage.backup.reader import SpoolReader
from sluicegate.storage.environment.folder_lock import DATA_FILE
from support.http.plain import HTTP
from support.load.delivery_record import DeliveryRecord
from support.load.mqtt_clients import WireConsumer, WirePublisher, hung_up_at_the_end, run_until
from support.processes.gateway import COMMAND_S, gateway, wait_until

WITHIN_S = 60
PARTITIONS = 4
KEYS = [f"k{number}" for number in range(12)]

pytestmark = [pytest.mark.crash, pytest.mark.slow]


def numbers_in(reader: SpoolReader, queue: str) -> dict[str, list[int]]:
    """Return the numbers of each key, in the order of their sequences."""
    found: dict[str, list[int]] = defaultdict(list)
    vpn = reader.vpns[DEFAULT_VPN]
    for position in vpn.partitions(queue):
        first = position.low
        while True:
            chunk = vpn.read(queue, position.number, first)
            for run in chunk.runs:
                for payload in run.batch.payloads()[run.start_row : run.stop_row]:
                    key, _, number = payload.rstrip(b".").decode().partition(":")
                    found[key].append(int(number))
            if chunk.next_sequence == first:
                break
            first = chunk.next_sequence
    return found


def drained(folder: Path, data: Path, queue: str, expected: dict[str, int]) -> DeliveryRecord:
    """Serve a restored data folder until the queue is empty."""
    record = DeliveryRecord("the restored queue")
    (folder / "data").parent.mkdir()
    data.rename(folder / "data")
    with gateway(folder) as node:
        consumer = WireConsumer("c", filter_text=f"$queue/{queue}", qos=1, record=record.note)
        consumer.connect(node.mqtt_port)
        with hung_up_at_the_end([consumer]):
            run_until(
                [consumer],
                lambda: record.has_all(expected) and node.held_count(queue) == 0,
                within_s=WITHIN_S,
                what="an empty queue",
            )
    return record


def test_a_backup_under_load_has_all_that_was_confirmed_before_it_and_drains_once_restored(tmp_path: Path) -> None:
    """Spark reference 3.1: consistent while publishers publish and another queue is consumed."""
    publishers = [
        WirePublisher("p1", topic="load", keys=KEYS[:6], qos=1, padding=b"." * 500),
        WirePublisher("p2", topic="load", keys=KEYS[6:], qos=1, window=200, padding=b"." * 500),
    ]
    consumed = DeliveryRecord("the consumed queue")
    consumer = WireConsumer("busy", filter_text="$queue/busy", qos=1, record=consumed.note, hold_count=10)
    with gateway(tmp_path / "node") as node:
        node.create_queue("load", subscriptions=["load/>"], partition_count=PARTITIONS, access_type="non-exclusive")
        node.create_queue("busy", subscriptions=["load/>"])
        clients = [consumer, *publishers]
        for client in clients:
            client.connect(node.mqtt_port)
        run_until(clients, lambda: sum(p.confirmed_count for p in publishers) > 3000, within_s=WITHIN_S, what="load")
        confirmed = {key: number for each in publishers for key, number in each.confirmed.items()}

        with node.running_command("backup", "under-load", "--json") as command:
            run_until(clients, lambda: command.poll() is not None, within_s=WITHIN_S, what="the backup")
            output, errors = command.communicate(timeout=COMMAND_S)
        assert command.returncode == 0, errors
        assert orjson.loads(output)["state"] == "done"
        published = {key: number for each in publishers for key, number in each.sent.items()}
        with hung_up_at_the_end(clients):
            run_until(clients, lambda: len(consumed.received) > 3000, within_s=WITHIN_S, what="deliveries, still")

    with SpoolReader.open_backup(node.backups / "under-load") as reader:
        assert reader.damage == []
        numbers = numbers_in(reader, "load")
    for key in KEYS:
        assert numbers[key] == list(range(1, len(numbers[key]) + 1)), f"{key}: in order, none missing, none twice"
        assert confirmed[key] <= len(numbers[key]) <= published[key]

    restored = node.command("restore", str(node.backups / "under-load"), "--data", str(tmp_path / "restored"), "--json")
    assert restored.returncode == 0, restored.stderr
    told = orjson.loads(restored.stdout)
    assert told["incarnation"] != told["incarnation_before"]
    in_backup = {key: found[-1] for key, found in numbers.items()}
    record = drained(tmp_path / "again", tmp_path / "restored", "load", in_backup)
    record.check_nothing_is_lost(in_backup)
    record.check_order()
    record.check_nothing_is_repeated()
    record.check_keys_stay_in_their_partition()


def test_a_kill_in_the_midst_of_a_backup_leaves_nothing_that_could_be_taken_for_one(tmp_path: Path) -> None:
    publisher = WirePublisher("p", topic="load", keys=["a"], qos=1, window=20, padding=b"." * 200_000)
    with gateway(tmp_path / "node") as node:
        node.create_queue("load", subscriptions=["load/>"])
        publisher.connect(node.mqtt_port)
        run_until([publisher], lambda: publisher.confirmed_count >= 300, within_s=WITHIN_S, what="60 MB")
        publisher.publishing = False
        run_until([publisher], lambda: publisher.is_idle, within_s=WITHIN_S, what="the last confirmations")
        publisher.hang_up()

        begun = HTTP.post(f"{node.admin_url}/backup", json={"name": "killed"}, timeout=COMMAND_S)
        assert begun.status_code == 202
        folder = node.backups / "killed"
        wait_until(folder.is_dir, within_s=WITHIN_S, what="the beginning of the backup")
        node.kill9()

        whole = (folder / DATA_FILE).exists()
        if not whole:
            refused = node.command("restore", str(folder), "--data", str(tmp_path / "restored"))
            assert refused.returncode == 1
            assert "no backup" in refused.stderr
            assert not (tmp_path / "restored").exists()
        node.start()
        again = node.command("backup", "second")
        assert again.returncode == 0, again.stderr
        assert sorted(os.listdir(node.backups)) == (["killed", "second"] if whole else ["second"])
        assert not (node.backups / "second" / PARTIAL_FILE).exists()
        with SpoolReader.open_backup(node.backups / "second") as reader:
            assert numbers_in(reader, "load")["a"] == list(range(1, publisher.confirmed_count + 1))
