"""Load that crosses a broker by two AMQP bridges, while each of the three brokers is killed."""

from pathlib import Path

import pytest

from support.load.bridged_load import BridgedLoad
from support.processes.gateway import GatewayProcess

KILLS = 2  # of each broker
BETWEEN = 200  # messages that come through before the next kill

pytestmark = [pytest.mark.crash, pytest.mark.slow]


def test_no_confirmed_message_is_lost(tmp_path: Path) -> None:
    """What a publisher was told is safe arrives, each key in order; some of it may arrive twice."""
    with GatewayProcess(tmp_path / "between") as between:
        between.create_queue("between")
        url = f"amqp://127.0.0.1:{between.amqp_port}"
        queue = "remote_queue: between"
        with BridgedLoad.between(tmp_path, url, there=queue, back=queue) as load:
            load.deliver(BETWEEN)
            for _ in range(KILLS):
                between.kill9()
                between.start()
                load.deliver(BETWEEN)
                load.kill(load.first)
                load.kill(load.second)
                load.deliver(BETWEEN)
            confirmed = load.drain()
            load.record.check_nothing_is_lost(confirmed)
            load.record.check_order()
            assert load.first.held_count("load") == 0
            assert between.held_count("between") == 0
