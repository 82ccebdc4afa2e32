"""Load that crosses RabbitMQ and ActiveMQ by AMQP 1.0, while each of the three brokers is killed."""

from pathlib import Path
from uuid import uuid4

import pytest

from support.foreign.brokers import ForeignBroker
from support.load.bridged_load import BridgedLoad

KILLS = 3  # of each broker
BETWEEN = 400  # messages that come through before the next kill

pytestmark = [pytest.mark.interop, pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(600)]


def test_no_confirmed_message_is_lost(amqp_broker: ForeignBroker, tmp_path: Path) -> None:
    """What a publisher was told is safe arrives, each key in order; some of it may arrive twice."""
    url = f"amqp://127.0.0.1:{amqp_broker.amqp_port}"
    address = amqp_broker.queue_address(f"load-{uuid4().hex[:8]}")
    with BridgedLoad.between(tmp_path, url, address, credentials=amqp_broker.credentials(tmp_path)) as load:
        load.deliver(BETWEEN)
        for _ in range(KILLS):
            amqp_broker.kill()
            amqp_broker.start()
            load.deliver(BETWEEN)
            load.kill(load.first)
            load.deliver(BETWEEN)
            load.kill(load.second)
            load.deliver(BETWEEN)
        confirmed = load.drain()
        load.record.check_nothing_is_lost(confirmed)
        load.record.check_order()
        assert load.first.held_count("load") == 0
