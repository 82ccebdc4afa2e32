"""A full spool: publishers are refused, consumers continue, and publishing resumes by itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.load.delivery_record import DeliveryRecord
from support.load.mqtt_clients import WireConsumer, WirePublisher, hung_up_at_the_end, run_until
from support.processes.gateway import GatewayProcess, gateway

WITHIN_S = 60
QUOTA_EXCEEDED = 0x97
PADDING = b"." * 60_000

pytestmark = [pytest.mark.crash]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[GatewayProcess]:
    """A gateway whose map is full at about 12 MiB, long before a quota refuses anything."""
    with gateway(tmp_path, spool__map_bytes_max="16MiB", spool__usage_bytes_max="16MiB") as process:
        process.create_queue("load", subscriptions=["load/>"])
        yield process


def fill(node: GatewayProcess, publisher: WirePublisher) -> None:
    """Publish until a message is refused."""
    publisher.connect(node.mqtt_port)
    run_until([publisher], lambda: bool(publisher.refused), within_s=WITHIN_S, what="a refusal")
    publisher.publishing = False
    run_until([publisher], lambda: publisher.is_idle, within_s=WITHIN_S, what="the other answers")


def drain(node: GatewayProcess, record: DeliveryRecord) -> WireConsumer:
    consumer = WireConsumer("consumer", filter_text="$queue/load", qos=1, record=record.note)
    consumer.connect(node.mqtt_port)
    run_until([consumer], lambda: node.held_count("load") == 0, within_s=WITHIN_S, what="an empty queue")
    return consumer


def is_open(node: GatewayProcess, publisher: WirePublisher) -> bool:
    """Publish a little; return whether it is confirmed."""
    before = publisher.confirmed_count
    publisher.publishing = True
    run_until(
        [publisher],
        lambda: bool(publisher.refused) or publisher.confirmed_count > before or publisher.socket is None,
        within_s=WITHIN_S,
        what="an answer",
    )
    publisher.publishing = False
    publisher.refused.clear()
    return publisher.confirmed_count > before


def test_a_publisher_of_version_5_gets_quota_exceeded_and_continues_later(node: GatewayProcess) -> None:
    """MQTT 5, 3.4.2.1: PUBACK with 0x97; the connection stays."""
    record = DeliveryRecord("load")
    publisher = WirePublisher("publisher", topic="load", keys=["a"], qos=1, window=1, padding=PADDING)
    fill(node, publisher)
    assert set(publisher.refused) == {QUOTA_EXCEEDED}
    assert publisher.socket is not None, "the connection stays"
    assert not node.is_ready(), "the node says that it takes no messages"
    assert publisher.confirmed_count == node.held_count("load")
    publisher.refused.clear()

    consumer = drain(node, record)
    with hung_up_at_the_end([publisher, consumer]):
        run_until([publisher, consumer], node.is_ready, within_s=WITHIN_S, what="room in the spool")
        assert is_open(node, publisher)
        run_until([publisher], lambda: publisher.is_idle, within_s=WITHIN_S, what="the last answers")
        run_until([consumer], lambda: node.held_count("load") == 0, within_s=WITHIN_S, what="an empty queue")
        record.check_nothing_is_lost(publisher.confirmed)
        record.check_order()


@pytest.mark.parametrize("qos", [1, 2])
def test_a_publisher_of_version_3_is_disconnected_and_its_message_is_taken_once_there_is_room(
    node: GatewayProcess, qos: int
) -> None:
    """3.1.1 has no word of refusal. At QoS 2 the packet id must not count as received [4.3.3-2]."""
    record = DeliveryRecord("load")
    filler = WirePublisher("filler", topic="load", keys=["a"], qos=1, window=1, padding=PADDING)
    fill(node, filler)
    filler.refused.clear()

    publisher = WirePublisher("old", topic="load", keys=["b"], qos=qos, level=4, window=1, padding=PADDING)
    with hung_up_at_the_end([filler, publisher]):
        publisher.connect(node.mqtt_port)
        run_until([publisher], lambda: publisher.socket is None, within_s=WITHIN_S, what="the end of the connection")
        assert publisher.confirmed_count == 0
        publisher.publishing = False

        consumer = drain(node, record)
        with hung_up_at_the_end([consumer]):
            run_until([consumer], node.is_ready, within_s=WITHIN_S, what="room in the spool")
            publisher.connect(node.mqtt_port)  # sends the refused message again
            run_until([publisher], lambda: publisher.is_idle, within_s=WITHIN_S, what="its confirmation")
            assert publisher.confirmed == {"b": 1}
            run_until(
                [consumer],
                lambda: record.has_all({**filler.confirmed, **publisher.confirmed}),
                within_s=WITHIN_S,
                what="its delivery",
            )
    record.check_nothing_is_lost({**filler.confirmed, **publisher.confirmed})


def test_a_full_spool_survives_a_restart(node: GatewayProcess) -> None:
    record = DeliveryRecord("load")
    publisher = WirePublisher("publisher", topic="load", keys=["a"], qos=1, window=1, padding=PADDING)
    fill(node, publisher)
    publisher.hang_up()
    node.kill9()
    node.start()
    consumer = drain(node, record)
    consumer.hang_up()
    record.check_nothing_is_lost(publisher.confirmed)
