"""Load that crosses brokers of other makers, out of one gateway and into another, while each of the three is killed."""

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
    queue = f"remote_queue: {amqp_broker.new_queue(f'load-{uuid4().hex[:8]}')}"
    url = f"amqp://127.0.0.1:{amqp_broker.amqp_port}"
    credentials = amqp_broker.credentials(tmp_path)
    with BridgedLoad.between(tmp_path, url, there=queue, back=queue, credentials=credentials) as load:
        survive_kills(load, amqp_broker)


def test_no_confirmed_message_is_lost_over_mqtt_3(mqtt_3_broker: ForeignBroker, tmp_path: Path) -> None:
    """The same: a session keeps the messages."""
    with BridgedLoad.over_mqtt(tmp_path, mqtt_3_broker, version="3.1.1") as load:
        survive_kills(load, mqtt_3_broker)


def test_no_confirmed_message_is_lost_over_mqtt_5(mqtt_5_broker: ForeignBroker, tmp_path: Path) -> None:
    with BridgedLoad.over_mqtt(tmp_path, mqtt_5_broker, version="5") as load:
        survive_kills(load, mqtt_5_broker)


def test_messages_of_qos_2_cross_exactly_once_over_mqtt_3(mqtt_3_broker: ForeignBroker, tmp_path: Path) -> None:
    """MQTT 4.3.3, while the broker between runs: none of these keeps the states of all messages when it is stopped."""
    if not mqtt_3_broker.has_qos_2:
        pytest.skip("it has no QoS 2")
    with BridgedLoad.over_mqtt(tmp_path, mqtt_3_broker, version="3.1.1", qos=2) as load:
        cross_once(load)


def test_messages_of_qos_2_cross_exactly_once_over_mqtt_5(mqtt_5_broker: ForeignBroker, tmp_path: Path) -> None:
    """Where there is no QoS 2, operators are told, and messages cross at least once."""
    with BridgedLoad.over_mqtt(tmp_path, mqtt_5_broker, version="5", qos=2) as load:
        if mqtt_5_broker.has_qos_2:
            cross_once(load)
            return
        load.deliver(BETWEEN)
        load.record.check_nothing_is_lost(load.drain())
        for gateway in (load.first, load.second):
            assert "grants QoS 1; the rule asks for 2" in gateway.command("show", "bridge", "--json").stdout


def cross_once(load: BridgedLoad) -> None:
    """Have messages cross, and look through the ledger."""
    load.deliver(3 * BETWEEN)
    load.record.check_nothing_is_lost(load.drain())
    load.record.check_nothing_is_repeated()


def survive_kills(load: BridgedLoad, between: ForeignBroker) -> None:
    """Kill all three in turn, several times, and look through the ledger.

    A broker that does not survive a kill with all that it has confirmed may lose what was published before the bridges
    are back, and nothing else.
    """
    load.deliver(BETWEEN)
    survivors: dict[str, int] = {}  # the last number of each key that a kill may have cost
    for _ in range(KILLS):
        if between.survives_kills:
            kill_and_start(between)
        else:
            survivors = load.losing(lambda: kill_and_start(between))
        load.deliver(BETWEEN)
        load.kill(load.first)
        load.deliver(BETWEEN)
        load.kill(load.second)
        load.deliver(BETWEEN)
    confirmed = load.drain()
    load.record.check_nothing_is_lost(confirmed, since=survivors)
    if between.keeps_order and between.survives_kills:
        load.record.check_order()


def kill_and_start(broker: ForeignBroker) -> None:
    """Kill a broker, and start it again on its data."""
    broker.kill()
    broker.start()
