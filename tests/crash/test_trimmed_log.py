"""A broker with replicas whose log has become large trims it, and replicas begin from snapshots: nothing is lost."""

import asyncio
import shutil
import signal
from functools import partial
from pathlib import Path

import pytest

from sluicegate.storage.replication.jetstream import connected
from sluicegate.storage.replication.trimming.holds import Holds
from support.http.plain import HTTP
from support.load.delivery_record import DeliveryRecord
from support.load.mqtt_clients import WireConsumer, WirePublisher, hung_up_at_the_end, run_until
from support.processes.gateway import wait_until
from support.processes.replicas import BROKER, TAKEN_OVER_S, ReplicaProcess, ReplicatedBroker
from support.storage.answers import answered

LOG_BYTES_MAX = 64 << 20
PAYLOAD_BYTES = 100_000
FILLED = int(LOG_BYTES_MAX * 0.7) // PAYLOAD_BYTES  # messages: more than holds may keep, less than publishers may use
WITHIN_S = 120

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(600)]


def log_bytes(replica: ReplicaProcess) -> int:
    return int(HTTP.get(f"{replica.admin_url}/cluster").json()["log_bytes"])


def begun_anew(replica: ReplicaProcess) -> bool:
    return "begins with snapshot" in replica.stderr


def held(broker: ReplicatedBroker) -> list[str]:
    """Return the replicas that hold the log."""

    async def found() -> list[str]:
        client = await connected(broker.servers.urls, WITHIN_S)
        try:
            return [each.replica for each in await answered(Holds(client, BROKER).all)]
        finally:
            await client.close()

    return asyncio.run(found())


def test_replicas_begin_from_a_snapshot_when_the_log_was_trimmed(tmp_path: Path) -> None:
    publisher = WirePublisher("p", topic="load", keys=["a"], qos=1, window=10, padding=b"." * PAYLOAD_BYTES)
    record = DeliveryRecord("the queue")
    consumer = WireConsumer("c", filter_text="$queue/load", qos=1, record=record.note)
    settings: dict[str, object] = {"cluster.log_bytes_max": LOG_BYTES_MAX}
    with ReplicatedBroker(tmp_path, settings) as broker, hung_up_at_the_end([publisher, consumer]):
        owner = broker.owner()
        away, emptied = broker.standbys()
        owner.create_queue("load", subscriptions=["load/>"])
        wait_until(lambda: away.name in held(broker), within_s=WITHIN_S, what="a hold")
        away.send_signal(signal.SIGSTOP)
        publisher.connect(owner.ports["mqtt"])
        run_until([publisher], lambda: publisher.confirmed_count >= FILLED, within_s=WITHIN_S, what="confirmations")
        publisher.publishing = False
        run_until([publisher], lambda: publisher.is_idle, within_s=WITHIN_S, what="the last confirmations")
        wait_until(lambda: log_bytes(owner) < LOG_BYTES_MAX // 2, within_s=WITHIN_S, what="a trimmed log")
        assert "SYSTEM_HA_STANDBY_DROPPED" in owner.stderr
        assert away.name not in held(broker)
        position = "sluicegate_replica_snapshot_position"
        wait_until(lambda: owner.metric(position) > 0, within_s=WITHIN_S, what="a snapshot that operators see")
        made = sum(each.metric("sluicegate_replica_snapshots_made_total") for each in (owner, emptied))
        assert made >= 2

        emptied.kill9()
        shutil.rmtree(emptied.data)
        emptied.start()
        away.send_signal(signal.SIGCONT)
        for replica in (away, emptied):
            wait_until(partial(begun_anew, replica), within_s=WITHIN_S, what="a snapshot that was installed")
        broker.until_whole()
        for replica in (emptied, away):
            broker.hand_over(replica.name)
            wait_until(replica.is_owner, within_s=TAKEN_OVER_S, what="the standby that was named")
            assert replica.held_count("load") == publisher.confirmed_count
            broker.until_whole()
        consumer.connect(away.ports["mqtt"])
        run_until([consumer], lambda: record.has_all(publisher.confirmed), within_s=WITHIN_S, what="all messages")
        record.check_nothing_is_lost(publisher.confirmed)
