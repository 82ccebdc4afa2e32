"""Three machines run replicas of three linked brokers: one machine is lost, and clients of all brokers go on."""

import os
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx
import pytest

from support.http.plain import HTTP
from support.load.delivery_record import DeliveryRecord
from support.load.mqtt_clients import WireConsumer, WirePublisher, hung_up_at_the_end, run_until
from support.processes.cluster_machines import ASK_S, SETTLED_S, ClusterMachine, ClusterMachines
from support.processes.gateway import wait_until

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(600)]


def knows_the_queue(machine: ClusterMachine, broker: str) -> bool:
    """Whether a broker has heard of the queue of another one, and of what that subscribes to."""
    url = machine.admin_url(broker)
    with suppress(httpx.HTTPError):
        queues = HTTP.get(f"{url}/network/queues", timeout=ASK_S).text
        wanted = HTTP.get(f"{url}/smrp/subscriptions", timeout=ASK_S).text
        return '"load"' in queues and '"load/' in wanted
    return False


def is_alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def test_the_brokers_of_a_lost_machine_go_on_at_others_and_come_back(tmp_path: Path) -> None:
    """A publisher is at one broker, the queue at another, and a consumer at the third: all crosses links."""
    publisher = WirePublisher("p", topic="load", keys=["a", "b"], qos=1, window=20)
    record = DeliveryRecord("the queue")
    consumer = WireConsumer("c", filter_text="$queue/load", qos=1, record=record.note)
    clients = [publisher, consumer]
    with ClusterMachines(tmp_path) as cluster, hung_up_at_the_end(clients):
        cluster.until_whole()
        cluster.prefer()
        m1, m2, m3 = cluster.machines.values()
        assert {name: each["owner"] for name, each in cluster.survey().items()} == {
            "orders": "m1",
            "stock": "m2",
            "bills": "m3",
        }
        queue = {"name": "load", "subscriptions": ["load/>"]}
        HTTP.post(f"{m1.admin_url('orders')}/queues", json=queue).raise_for_status()
        for machine, broker in ((m2, "stock"), (m3, "bills")):
            wait_until(partial(knows_the_queue, machine, broker), within_s=SETTLED_S, what="the queue over a link")
        publisher.connect(m2.ports["stock"]["mqtt"])
        consumer.connect(m3.ports["bills"]["mqtt"])

        def crosses(count: int) -> None:
            """Run until so many more messages are confirmed, and all have arrived."""
            wanted = publisher.confirmed_count + count
            publisher.publishing = True
            run_until(clients, lambda: publisher.confirmed_count >= wanted, within_s=SETTLED_S, what="confirmations")
            publisher.publishing = False  # links are slower: what waits would not end
            run_until(clients, lambda: publisher.is_idle, within_s=SETTLED_S, what="the last confirmations")
            run_until(
                clients, lambda: record.has_all(publisher.confirmed), within_s=SETTLED_S, what="messages over links"
            )

        crosses(50)
        m1.lose()
        crosses(50)  # what is published while nobody owns the queue's broker waits in the link's queue
        assert cluster.owner("orders") is m2
        m1.start()
        cluster.until_whole()
        cluster.prefer()
        assert cluster.owner("orders") is m1
        crosses(50)
        record.check_nothing_is_lost(publisher.confirmed)
        record.check_order()

        replicas = m3.replica_pids()
        assert len(replicas) == 3
        m3.kill_supervisor()
        wait_until(lambda: not any(map(is_alive, replicas)), within_s=SETTLED_S, what="replicas that have stopped")
        assert cluster.owner("bills") is m1
