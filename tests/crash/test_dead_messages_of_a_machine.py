"""kill -9 of the broker that has the dead message queue, and of the one whose messages die, under load.

All messages of the queue expire after a second. Each that was confirmed, with QoS 2, is in the dead message queue once,
in order, whatever was killed when.
"""

import random
from pathlib import Path

import pytest

from support.load.delivery_record import DeliveryRecord
from support.load.mqtt_clients import WireConsumer, WirePublisher, hung_up_at_the_end, run_until, turn
from support.processes.gateway import wait_until
from support.processes.machine import MachineProcess

FIRST, SECOND = "sluicegate", "sluicegate-2"
DMQ = "#DEAD_MSG_QUEUE"
KILLED = (2, 2, 1, 2, 1, 2)  # numbers of brokers; the second has the dead message queue
CONFIRMED_PER_ROUND = (200, 800)  # how much is confirmed before the next kill; drawn
SEED = 20_261_127
DRAIN_S = 90

pytestmark = [pytest.mark.crash, pytest.mark.slow]


@pytest.mark.timeout(900)
def test_no_dead_message_is_lost_or_doubled_whichever_broker_is_killed(tmp_path: Path) -> None:
    draw = random.Random(SEED)
    record = DeliveryRecord("the dead message queue")
    publishers = [WirePublisher(f"p{number}", topic="load", keys=[f"k{number}"], qos=2) for number in range(4)]
    undertaker = WireConsumer("undertaker", filter_text=f"$queue/{DMQ}", qos=1, record=record.note)
    with MachineProcess(tmp_path, 2) as machine, hung_up_at_the_end([*publishers, undertaker]):
        machine.create_queue(DMQ, home=SECOND)
        machine.create_queue("load", home=FIRST, subscriptions=["load/>"], respect_ttl_enabled=True, max_ttl=1)

        def confirms(count: int) -> None:
            for publisher in publishers:
                if publisher.socket is None:
                    publisher.connect(machine.mqtt_port)
            wanted = sum(each.confirmed_count for each in publishers) + count
            run_until(
                publishers,
                lambda: sum(each.confirmed_count for each in publishers) >= wanted,
                within_s=DRAIN_S,
                what=f"{count} confirmations",
            )

        for number in KILLED:
            confirms(draw.randint(*CONFIRMED_PER_ROUND))
            wait_until(lambda: machine.held_count(DMQ) > 0, within_s=DRAIN_S, what="dead messages")
            machine.kill_broker(machine.broker_pid(number))
            for _ in range(20):
                turn(publishers)
        for publisher in publishers:
            publisher.publishing = False
        confirms(0)
        run_until(publishers, lambda: all(each.is_idle for each in publishers), within_s=DRAIN_S, what="the last ones")
        confirmed = {key: number for publisher in publishers for key, number in publisher.confirmed.items()}
        wait_until(
            lambda: machine.held_count("load") == 0 and machine.held_count(DMQ) >= sum(confirmed.values()),
            within_s=DRAIN_S,
            what="the last dead messages",
        )
        assert machine.held_count(DMQ) == sum(confirmed.values())

        undertaker.connect(machine.mqtt_port)
        run_until([undertaker], lambda: record.has_all(confirmed), within_s=DRAIN_S, what="all dead messages")
        record.check_nothing_is_lost(confirmed)
        record.check_nothing_is_repeated()
        record.check_order()
