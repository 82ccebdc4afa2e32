"""Load that crosses brokers of other makers, while each of the three is killed, if it survives that."""

from pathlib import Path
from uuid import uuid4

import pytest

from support.foreign.brokers import ForeignBroker
from support.load.bridged_load import BridgedLoad

KILLS = 3  # of each broker
BETWEEN = 400  # messages that come through before the next kill

pytestmark = [pytest.mark.interop, pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(600)]


def test_no_confirmed_message_is_lost_over_amqp(amqp_broker: ForeignBroker, tmp_path: Path) -> None:
    """What a publisher was told is safe arrives, each key in order; some of it may arrive twice."""
    url = f"amqp://127.0.0.1:{amqp_broker.amqp_port}"
    queue = f"remote_queue: {amqp_broker.queue_address(f'load-{uuid4().hex[:8]}')}"
    credentials = amqp_broker.credentials(tmp_path)
    with BridgedLoad.between(tmp_path, url, there=queue, back=queue, credentials=credentials) as load:
        survive_kills(load, amqp_broker)


def test_no_confirmed_message_is_lost_over_mqtt(mqtt_broker: ForeignBroker, tmp_path: Path) -> None:
    """The same by MQTT 3.1.1, which all of them speak: a session keeps the messages."""
    url = f"mqtt://127.0.0.1:{mqtt_broker.mqtt_port}"
    credentials = f"mqtt_version: '3.1.1'\n{mqtt_broker.credentials(tmp_path)}"
    there, back = "add_prefix: across/", "remote_topic: across/load/+"
    with BridgedLoad.between(tmp_path, url, there=there, back=back, credentials=credentials) as load:
        survive_kills(load, mqtt_broker)


def survive_kills(load: BridgedLoad, between: ForeignBroker) -> None:
    """Kill all three in turn, several times, and look through the ledger."""
    load.deliver(BETWEEN)
    for _ in range(KILLS):
        if between.survives_kills:
            between.kill()
            between.start()
            load.deliver(BETWEEN)
        load.kill(load.first)
        load.deliver(BETWEEN)
        load.kill(load.second)
        load.deliver(BETWEEN)
    confirmed = load.drain()
    load.record.check_nothing_is_lost(confirmed)
    if between.keeps_order:
        load.record.check_order()
    assert load.first.held_count("load") == 0
