"""Damage on disk: a damaged record is set aside; damage to the pages of LMDB ends all writing.

The readable part of a spool with broken pages is copied into a new spool, and a broker serves it.
"""

from pathlib import Path

import pytest

from sluicegate.storage.integrity.pages import LEAF, DataFile
from sluicegate.storage.integrity.walk import FREE_LIST, NAMES, TreeWalk
from support.http.plain import HTTP
from support.load.delivery_record import DeliveryRecord
from support.load.mqtt_clients import WireConsumer, WirePublisher, hung_up_at_the_end, run_until
from support.processes.gateway import GatewayProcess, wait_until
from support.storage.log_files import flip_record, frames_in
from support.storage.lost_rows import lose_definition

WITHIN_S = 60
IMPLEMENTATION_SPECIFIC_ERROR = 0x83

pytestmark = [pytest.mark.crash]


def test_undamaged_messages_are_served_and_the_damage_is_counted(tmp_path: Path) -> None:
    record = DeliveryRecord("load")
    publisher = WirePublisher("publisher", topic="load", keys=["a"], qos=1, window=1)  # so each has its own commit
    consumer = WireConsumer("consumer", filter_text="$queue/load", qos=1, record=record.note)
    gateway = GatewayProcess(tmp_path)
    with gateway, hung_up_at_the_end([publisher, consumer]):
        gateway.create_queue("load", subscriptions=["load/>"])
        publisher.connect(gateway.mqtt_port)
        run_until([publisher], lambda: publisher.confirmed_count >= 20, within_s=WITHIN_S, what="a backlog")
        gateway.kill9()
        publisher.read_to_the_end()
        published = publisher.confirmed_count

        frames = frames_in(gateway.data)
        assert len(frames) > 10
        damaged = frames[len(frames) // 2]
        flip_record(gateway.data, damaged.number, (damaged.end - damaged.start) // 2)
        gateway.start()
        consumer.connect(gateway.mqtt_port)
        run_until([consumer], lambda: gateway.held_count("load") == 0, within_s=WITHIN_S, what="an empty queue")

        assert gateway.metric("sluicegate_spool_damaged_records_total") == 1
        assert "was set aside" in gateway.stderr
        assert gateway.is_ready()
    numbers = [each.number for each in record.received]
    assert published - 1 <= len(numbers) <= published  # one more may have been stored and not confirmed in time
    assert numbers == sorted(numbers)
    assert set(range(1, published + 1)) - set(numbers), "one is lost with its record"


def break_a_tree(data_file: Path, table: str) -> None:
    """Flip one bit in the header of the first leaf of a tree: then it is a leaf no more."""
    with DataFile(data_file) as file:
        walk = TreeWalk(file, file.snapshots[0])
        walk.run()
        offset = walk.trees[table].leaves[0] * file.page_bytes + 10
        assert file.read(offset, 1) == bytes([LEAF])
    with data_file.open("r+b") as raw:
        raw.seek(offset)
        raw.write(b"\0")


def health(node: GatewayProcess, what: str) -> int:
    return HTTP.get(f"{node.admin_url}/health/{what}", timeout=WITHIN_S).status_code


def fill(node: GatewayProcess, publisher: WirePublisher, count: int) -> None:
    node.create_queue("load", subscriptions=["load/>"])
    publisher.connect(node.mqtt_port)
    run_until([publisher], lambda: publisher.confirmed_count >= count, within_s=WITHIN_S, what="a backlog")
    publisher.publishing = False
    run_until([publisher], lambda: publisher.is_idle, within_s=WITHIN_S, what="the last answers")


@pytest.mark.parametrize("table", [FREE_LIST, NAMES])
def test_a_broken_page_of_lmdb_is_distinguished_from_a_full_spool_and_the_rest_is_salvaged(
    tmp_path: Path, table: str
) -> None:
    record = DeliveryRecord("load")
    publisher = WirePublisher("publisher", topic="load", keys=["a", "b"], qos=1, window=4, padding=b"." * 2000)
    consumer = WireConsumer("consumer", filter_text="$queue/load", qos=1, record=record.note)
    node = GatewayProcess(tmp_path / "damaged")
    with node, hung_up_at_the_end([publisher]):
        fill(node, publisher, 400)
        break_a_tree(node.data / "data.mdb", table)
        publisher.publishing = True
        run_until([publisher], lambda: bool(publisher.refused), within_s=WITHIN_S, what="a refusal")
        publisher.publishing = False
        run_until([publisher], lambda: publisher.is_idle, within_s=WITHIN_S, what="the last answers")
        confirmed = dict(publisher.confirmed)  # with what was confirmed until a checkpoint met the damage
        assert set(publisher.refused) == {IMPLEMENTATION_SPECIFIC_ERROR}, "not 0x97, which is for want of room"
        assert health(node, "ready") == 503
        assert node.metric("sluicegate_spool_failed", reason="damaged") == 1
        wait_until(lambda: health(node, "live") == 503, within_s=WITHIN_S, what="/health/live that fails")
        assert node.metric("sluicegate_spool_commit_failures_total", reason="full") == 0
        assert node.stderr.count("the spool has failed, and takes no messages") == 1
        assert node.stderr.count("SYSTEM_AD_MSG_SPOOL_FAILED: ") == 1
    assert "the spool was not closed in order" in node.stderr

    before = (node.data / "data.mdb").read_bytes()
    examined = node.command("doctor", "--data", str(node.data))
    assert examined.returncode == 1
    assert f"{table} " in examined.stdout
    assert "--salvage" in examined.stdout

    new = GatewayProcess(tmp_path / "new")
    salvaged = node.command("doctor", "--data", str(node.data), "--salvage", str(new.data))
    assert salvaged.returncode == 0, salvaged.stdout + salvaged.stderr
    assert (node.data / "data.mdb").read_bytes() == before, "the damaged spool is only read"
    doctored = node.command("doctor", "--data", str(new.data))
    assert doctored.returncode == 0, doctored.stdout

    with new, hung_up_at_the_end([consumer]):
        consumer.connect(new.mqtt_port)
        run_until([consumer], lambda: record.has_all(confirmed), within_s=WITHIN_S, what="what was confirmed")
    record.check_nothing_is_lost(confirmed)
    record.check_order()


def test_a_start_on_a_spool_with_broken_pages_reports_them(tmp_path: Path) -> None:
    """It was killed, and what breaks has the place in the log: doctor finds the page, and all messages come back."""
    record = DeliveryRecord("load")
    publisher = WirePublisher("publisher", topic="load", keys=["a"], qos=1, window=1)
    consumer = WireConsumer("consumer", filter_text="$queue/load", qos=1, record=record.note)
    node = GatewayProcess(tmp_path / "damaged")
    with node, hung_up_at_the_end([publisher]):
        fill(node, publisher, 60)
        confirmed = dict(publisher.confirmed)
        node.kill9()
    break_a_tree(node.data / "data.mdb", "meta")
    with pytest.raises(AssertionError, match="doctor"):
        node.start()
    new = GatewayProcess(tmp_path / "new")
    assert node.command("doctor", "--data", str(node.data), "--salvage", str(new.data)).returncode == 0
    with new, hung_up_at_the_end([consumer]):
        consumer.connect(new.mqtt_port)
        run_until([consumer], lambda: record.has_all(confirmed), within_s=WITHIN_S, what="what was confirmed")
    record.check_nothing_is_lost(confirmed)


def test_a_queue_that_a_crash_left_without_its_definition_is_opened_by_commands(tmp_path: Path) -> None:
    """Log, pages and cursors are as `kill -9` left them; nobody gets anything before an operator decides."""
    record = DeliveryRecord("load")
    publisher = WirePublisher("publisher", topic="load", keys=["a", "b"], qos=1, window=4)
    consumer = WireConsumer("consumer", filter_text="$queue/load", qos=1, record=record.note)
    node = GatewayProcess(tmp_path)
    with node, hung_up_at_the_end([publisher, consumer]):
        fill(node, publisher, 200)
        confirmed = dict(publisher.confirmed)
        node.stop()  # which applies the log, with the definition
        node.start()
        node.kill9()
        lose_definition(node.data, "load", torn=True)
        examined = node.command("doctor", "--data", str(node.data))
        assert examined.returncode == 1
        assert "its definition is lost" in " ".join(examined.stdout.split())

        node.start()
        assert node.metric("sluicegate_queues_definition_lost", vpn="default") == 1
        assert node.held_count("load") == publisher.confirmed_count
        assert "VPN_AD_QENDPT_DEFINITION_LOST" in node.stderr
        changes = ("permission=consume", "ingress_enabled=true", "egress_enabled=true")
        changed = node.command("queue", "set", "load", *changes)
        assert changed.returncode == 0, changed.stdout + changed.stderr
        consumer.connect(node.mqtt_port)
        run_until([consumer], lambda: record.has_all(confirmed), within_s=WITHIN_S, what="what was confirmed")
        assert node.metric("sluicegate_queues_definition_lost", vpn="default") == 0
    record.check_nothing_is_lost(confirmed)
    record.check_order()
