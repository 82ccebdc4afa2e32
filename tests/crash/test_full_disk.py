"""A disk that becomes full under a running gateway: a small file system, with and without other files on it."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.load.delivery_record import DeliveryRecord
from support.load.mqtt_clients import WireConsumer, WirePublisher, hung_up_at_the_end, run_until
from support.processes.gateway import GatewayProcess, gateway, wait_until
from support.processes.replicas import TAKEN_OVER_S, ReplicatedBroker

WITHIN_S = 170  # a hundred megabytes in pure Python, on a busy machine
DISK_MB = 160
PADDING = b"." * 60_000

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(600)]


@contextmanager
def small_disk(data: Path) -> Iterator[None]:
    """Have a data folder that is a file system of its own."""
    data.mkdir(parents=True)
    if os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(data)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no tmpfs here: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(data)], check=True)  # lazily: a failed test may have left it open


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """The gateway's folder, with a small disk."""
    with small_disk(tmp_path / "node" / "data"):
        yield tmp_path / "node"


def is_refused(node: GatewayProcess, publisher: WirePublisher) -> bool:
    return bool(publisher.refused) and not node.is_ready()


def fill(node: GatewayProcess, publisher: WirePublisher) -> None:
    """Publish until messages are refused and the node is not ready; a last smaller commit may have found room again."""
    while node.is_ready():
        publisher.publishing = True
        run_until([publisher], lambda: is_refused(node, publisher), within_s=WITHIN_S, what="a refusal")
        publisher.publishing = False
        run_until([publisher], lambda: publisher.is_idle, within_s=WITHIN_S, what="the other answers")
        publisher.refused.clear()


def drain(node: GatewayProcess, consumer: WireConsumer) -> None:
    run_until([consumer], lambda: node.held_count("load") == 0, within_s=WITHIN_S, what="an empty queue")


def test_a_full_disk_refuses_publishers_and_takes_messages_again_when_consumers_have_made_room(disk: Path) -> None:
    """What consumers settle is used again, though the file keeps its size."""
    record = DeliveryRecord("load")
    publisher = WirePublisher("publisher", topic="load", keys=["a"], qos=1, window=4, padding=PADDING)
    consumer = WireConsumer("consumer", filter_text="$queue/load", qos=1, record=record.note)
    with gateway(disk) as node, hung_up_at_the_end([publisher, consumer]):
        node.create_queue("load", subscriptions=["load/>"])
        publisher.connect(node.mqtt_port)
        fill(node, publisher)
        assert not node.is_ready()
        assert publisher.confirmed_count == node.held_count("load") > 100
        consumer.connect(node.mqtt_port)
        drain(node, consumer)
        run_until([publisher, consumer], node.is_ready, within_s=WITHIN_S, what="room again")
        before = publisher.confirmed_count
        publisher.publishing = True
        run_until(
            [publisher, consumer], lambda: publisher.confirmed_count > before + 100, within_s=WITHIN_S, what="more"
        )
        publisher.publishing = False
        run_until([publisher, consumer], lambda: publisher.is_idle, within_s=WITHIN_S, what="the last answers")
        drain(node, consumer)
        record.check_nothing_is_lost(publisher.confirmed)
        record.check_order()


def test_room_that_others_took_from_the_disk_is_noticed_when_they_give_it_back(disk: Path) -> None:
    """Nobody consumes: only the other file's end makes room. What was confirmed survives a kill in between."""
    publisher = WirePublisher("publisher", topic="load", keys=["a"], qos=1, window=4, padding=PADDING)
    other = disk / "data" / "somebody-elses"
    with gateway(disk) as node, hung_up_at_the_end([publisher]):
        node.create_queue("load", subscriptions=["load/>"])
        publisher.connect(node.mqtt_port)
        run_until([publisher], lambda: publisher.confirmed_count > 20, within_s=WITHIN_S, what="confirmations")
        other.write_bytes(bytes((DISK_MB - 40) << 20))
        fill(node, publisher)
        assert not node.is_ready()
        held = publisher.confirmed_count
        publisher.hang_up()
        node.kill9()
        node.start()
        assert node.held_count("load") == held
        other.unlink()
        publisher.connect(node.mqtt_port)
        run_until([publisher], node.is_ready, within_s=WITHIN_S, what="room again")
        publisher.publishing = True
        run_until([publisher], lambda: publisher.confirmed_count > held, within_s=WITHIN_S, what="a confirmation")
        publisher.publishing = False


def test_an_owner_whose_disk_is_full_hands_over_to_a_standby_whose_disk_has_room(tmp_path: Path) -> None:
    publisher = WirePublisher("publisher", topic="load", keys=["a"], qos=1, window=4)
    data = tmp_path / "a" / "data"
    with (
        small_disk(data),
        ReplicatedBroker(tmp_path) as broker,
        hung_up_at_the_end([publisher]),
    ):
        if (first := broker.owner()).name != "a":
            broker.hand_over("a")
            wait_until(lambda: not first.is_owner(), within_s=TAKEN_OVER_S, what="the handover")
        owner = broker.owner()
        assert owner.name == "a"
        owner.create_queue("load", subscriptions=["load/>"])
        broker.until_whole()
        with open(data / "of-others", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, free_bytes(data) - (8 << 20))
        wait_until(lambda: not owner.is_owner(), within_s=TAKEN_OVER_S, what="the owner to hand over")
        assert "SYSTEM_HA_DISK_FULL" in owner.stderr
        successor = broker.owner()
        assert successor is not owner
        publisher.connect(successor.ports["mqtt"])
        publisher.publishing = True
        run_until([publisher], lambda: publisher.confirmed_count >= 10, within_s=WITHIN_S, what="confirmations")
        broker.until_whole()  # the small disk still has what it needs of its reserve
        assert successor.is_owner()


def free_bytes(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize
