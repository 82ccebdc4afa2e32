"""Replicas are upgraded one after the other to a release that reads a higher feature level of the log.

The later release is this one with another number: `sitecustomize` changes it before anything else is imported.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sluicegate.gateway.cluster.replica.process import EXIT_CODES, End
from sluicegate.storage.replication.levels import LEVEL
from support.http.plain import HTTP
from support.load.delivery_record import DeliveryRecord
from support.load.mqtt_clients import WireClient, WireConsumer, WirePublisher, hung_up_at_the_end, run_until, turn
from support.processes.gateway import wait_until
from support.processes.replicas import TAKEN_OVER_S, ReplicaProcess, ReplicatedBroker

LATER = LEVEL + 1
WITHIN_S = 90
PER_STEP = 50  # confirmations

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(300)]


@contextmanager
def later_release(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have processes that start within the block be of a release that reads a higher level."""
    folder.mkdir()
    patch = f"from sluicegate.storage.replication import levels\nlevels.LEVEL = {LATER}\n"
    (folder / "sitecustomize.py").write_text(patch)
    with monkeypatch.context() as patched:
        patched.setenv("PYTHONPATH", os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]))
        yield


class Load:
    """A publisher and a consumer, which connect to whichever replica owns the broker."""

    def __init__(self, broker: ReplicatedBroker) -> None:
        self.broker = broker
        self.record = DeliveryRecord("load")
        self.publisher = WirePublisher("p", topic="load", keys=["a", "b"], qos=1, window=20)
        self.consumer = WireConsumer("c", filter_text="$queue/load", qos=1, record=self.record.note, hold_count=5)
        self.clients: list[WireClient] = [self.publisher, self.consumer]

    def goes_on(self) -> None:
        """Run until more is confirmed, by whichever replica owns the broker meanwhile."""
        wanted, until_s = self.publisher.confirmed_count + PER_STEP, time.monotonic() + WITHIN_S
        while self.publisher.confirmed_count < wanted:
            assert time.monotonic() < until_s, f"waited {WITHIN_S} s for {PER_STEP} confirmations"
            if any(client.socket is None for client in self.clients):
                owner = self.broker.owner()
                for client in self.clients:
                    client.hang_up()
                    client.connect(owner.mqtt_port)
            turn(self.clients)

    def loses_the_owner(self) -> None:
        """Take what it has sent, before anything is written that would be refused."""
        for client in self.clients:
            client.read_to_the_end()

    def drains(self) -> None:
        self.publisher.publishing = False
        self.consumer.hold_count = 0
        self.consumer.settle_down_to(0)
        run_until(
            self.clients,
            lambda: self.publisher.is_idle and self.record.has_all(self.publisher.confirmed),
            within_s=WITHIN_S,
            what="the last confirmations and deliveries",
        )
        owner = self.broker.owner()
        run_until(self.clients, lambda: owner.held_count("load") == 0, within_s=WITHIN_S, what="an empty queue")

    def only_what_was_delivered_is_flagged(self) -> None:
        seen: set[tuple[str, int]] = set()
        for each in self.record.received:
            assert (each.key, each.number) in seen or not each.redelivered, f"{each} was never delivered before"
            seen.add((each.key, each.number))


def level_of(replica: ReplicaProcess) -> float:
    return replica.metric("sluicegate_replica_level")


def test_a_rolling_upgrade_loses_nothing_and_raises_the_level_when_the_last_replica_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ReplicatedBroker(tmp_path) as broker:
        load = Load(broker)
        with hung_up_at_the_end(load.clients):
            broker.owner().create_queue("load", subscriptions=["load/>"])
            load.goes_on()
            with later_release(tmp_path / "later", monkeypatch):
                first = broker.owner()
                for replica in [*broker.standbys(), first]:
                    assert level_of(first) == LEVEL
                    replica.stop()
                    if replica is first:
                        load.loses_the_owner()
                    load.goes_on()
                    replica.start()
                    broker.until_whole()
                    load.goes_on()
            owner = broker.owner()
            wait_until(lambda: level_of(owner) == LATER, within_s=TAKEN_OVER_S, what="a higher level of the log")
            assert f"SYSTEM_HA_LEVEL: - - the log has feature level {LATER}" in owner.stderr
            load.goes_on()
            load.drains()
        load.record.check_nothing_is_lost(load.publisher.confirmed)
        load.record.check_order()
        load.only_what_was_delivered_is_flagged()
        no_way_back(broker, owner)


def no_way_back(broker: ReplicatedBroker, owner: ReplicaProcess) -> None:
    """Start a standby with the earlier release: it ends, and says why, and the owner knows it as well."""
    downgraded = broker.standbys()[0]
    downgraded.stop()
    assert downgraded.exit_code_of_a_start() == EXIT_CODES[End.OUTDATED]
    assert "this replica needs a later release, for a log never goes back" in downgraded.stderr
    wait_until(lambda: owner.metric("sluicegate_replicas_outdated") == 1, within_s=WITHIN_S, what="an outdated replica")
    views = HTTP.get(f"{owner.admin_url}/cluster").json()["replicas"]
    (view,) = [each for each in views if each["name"] == downgraded.name]
    assert view["reads_level"] == LEVEL
    assert f"reads feature level {LEVEL}, and the log has level {LATER}" in view["problem"]
