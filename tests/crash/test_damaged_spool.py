"""A damaged record in a stopped store: it is reported and counted, and everything else is served."""

from pathlib import Path

import lmdb
import pytest

from delivery_record import DeliveryRecord
from gateway_process import GatewayProcess
from wire_clients import WireConsumer, WirePublisher, hung_up_at_the_end, run_until

WITHIN_S = 60

pytestmark = [pytest.mark.crash]


def flip_a_byte_in_the_middle(folder: Path, database: str) -> int:
    """Change one byte of the middle row of a database of a stopped store; return how many rows there are."""
    with (
        lmdb.open(str(folder), map_size=1 << 30, max_dbs=16) as env,
        env.begin(write=True) as txn,
        txn.cursor(db=env.open_db(database.encode(), txn=txn)) as cursor,
    ):
        keys = list(cursor.iternext(keys=True, values=False))
        cursor.set_key(keys[len(keys) // 2])
        damaged = bytearray(cursor.value())
        damaged[len(damaged) // 2] ^= 0x40
        cursor.put(cursor.key(), bytes(damaged))
    return len(keys)


def test_what_is_not_damaged_is_served_and_the_damage_is_counted(tmp_path: Path) -> None:
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

        assert flip_a_byte_in_the_middle(gateway.data, "journal") > 2
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
