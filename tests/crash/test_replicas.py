"""A broker with replicas on several machines loses nothing that it confirmed, whichever of them ends or hangs."""

import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.http.plain import HTTP
from support.load.amqp_consumer import AmqpWireConsumer
from support.load.delivery_record import DeliveryRecord
from support.load.flow_clients import FlowWireConsumer
from support.load.mqtt_clients import WireClient, WireConsumer, WirePublisher, hung_up_at_the_end, run_until, turn
from support.processes.foreign_programs import library
from support.processes.gateway import wait_until
from support.processes.replicas import TAKEN_OVER_S, ReplicaProcess, ReplicatedBroker, WaitingReplica
from support.thorough import amount

ROUNDS = amount(2, thorough=4)
CONFIRMED_PER_ROUND = (50, 300)  # how much is confirmed before the next blow; drawn
SEED = 20_261_128
DRAIN_S = 90
PORTS: dict[type, str] = {AmqpWireConsumer: "amqp", FlowWireConsumer: "flow"}

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(600)]


class Load:
    """Clients of one broker, which connect to whichever replica owns it."""

    def __init__(self) -> None:
        self.record = DeliveryRecord("the queue")
        self.exact = DeliveryRecord("the QoS 2 session")
        self.at_least_once = [
            WirePublisher("p1", topic="load", keys=["a1", "a2"], qos=1, window=50),
            WirePublisher("p2", topic="load", keys=["b1", "b2"], qos=2, window=20),
        ]
        self.exactly_once = [WirePublisher("x1", topic="exact", keys=["c"], qos=2, level=5, window=20)]
        self.publishers = [*self.at_least_once, *self.exactly_once]
        self.session = WireConsumer("e1", filter_text="exact/#", qos=2, record=self.exact.note)
        note = self.record.note
        self.workers: list[WireConsumer | AmqpWireConsumer | FlowWireConsumer] = [
            WireConsumer("mq1", filter_text="$queue/load", qos=1, record=note, hold_count=5),
            AmqpWireConsumer("aq", queue="load", record=note, hold_count=3),
            FlowWireConsumer("fq", queue="load", record=note, hold_count=3),
        ]
        self.clients: list[WireClient] = [self.session, *self.workers, *self.publishers]

    def connects(self, owner: ReplicaProcess) -> None:
        """Connect all to the owner."""
        for client in self.clients:
            client.hang_up()
            client.connect(owner.ports[PORTS.get(type(client), "mqtt")])

    def confirms(self, count: int) -> None:
        wanted = self.confirmed_count() + count
        run_until(
            self.clients, lambda: self.confirmed_count() >= wanted, within_s=DRAIN_S, what=f"{count} confirmations"
        )

    def confirmed_count(self) -> int:
        return sum(publisher.confirmed_count for publisher in self.publishers)

    def goes_on(self, broker: ReplicatedBroker, count: int) -> None:
        """Run until so many more are confirmed, by whichever replica owns the broker meanwhile."""
        wanted = self.confirmed_count() + count
        until_s = time.monotonic() + DRAIN_S
        while self.confirmed_count() < wanted:
            assert time.monotonic() < until_s, f"waited {DRAIN_S} s for {count} confirmations"
            if any(client.socket is None for client in self.clients):
                self.connects(broker.owner())
            turn(self.clients)

    def hears_what_was_confirmed_before(self) -> None:
        """Read for a second, in which the owner tells what a majority had."""
        until_s = time.monotonic() + 1
        while time.monotonic() < until_s:
            turn(self.clients)

    def loses_the_owner(self) -> None:
        """Take what it sent before it ended."""
        for client in self.clients:
            client.read_to_the_end()

    def drains_and_checks(self, owner: ReplicaProcess) -> None:
        """Publish no more, run until all has been confirmed and consumed, and judge what has come."""
        for publisher in self.publishers:
            publisher.publishing = False
        for consumer in [*self.workers, self.session]:
            consumer.hold_count = 0
            consumer.settle_down_to(0)
        run_until(
            self.clients,
            lambda: all(publisher.is_idle for publisher in self.publishers) and self._all_arrived(),
            within_s=DRAIN_S,
            what="the last confirmations and deliveries",
        )
        run_until(self.clients, lambda: owner.held_count("load") == 0, within_s=DRAIN_S, what="an empty queue")
        self.record.check_nothing_is_lost(_confirmed(self.at_least_once))
        self.record.check_order()
        self.exact.check_nothing_is_lost(_confirmed(self.exactly_once))
        self.exact.check_order()
        self.exact.check_nothing_is_repeated()

    def _all_arrived(self) -> bool:
        return self.record.has_all(_confirmed(self.at_least_once)) and self.exact.has_all(_confirmed(self.exactly_once))


def _confirmed(publishers: list[WirePublisher]) -> dict[str, int]:
    return {key: number for publisher in publishers for key, number in publisher.confirmed.items()}


@contextmanager
def loaded(folder: Path) -> Iterator[tuple[ReplicatedBroker, Load]]:
    load = Load()
    with ReplicatedBroker(folder) as broker, hung_up_at_the_end(load.clients):
        owner = broker.owner()
        owner.create_queue(
            "load",
            access_type="non-exclusive",
            partition_count=4,
            subscriptions=["load/>"],
            partition_rebalance_delay_s=0,
            partition_rebalance_max_handoff_time_s=1,
        )
        load.connects(owner)
        run_until(load.clients, lambda: load.session.subscribed, within_s=DRAIN_S, what="SUBACK")
        yield broker, load


def test_an_owner_that_is_killed_is_followed_by_a_standby(tmp_path: Path) -> None:
    draw = random.Random(SEED)
    with loaded(tmp_path) as (broker, load):
        for _ in range(ROUNDS):
            load.confirms(draw.randint(*CONFIRMED_PER_ROUND))
            killed = broker.owner()
            killed.kill9()
            load.loses_the_owner()
            load.connects(broker.owner())
            load.confirms(20)  # with two replicas
            killed.start()
            broker.until_whole()
        load.drains_and_checks(broker.owner())


def test_an_operator_hands_the_broker_over_and_back(tmp_path: Path) -> None:
    draw = random.Random(SEED)
    with loaded(tmp_path) as (broker, load):
        for _ in range(ROUNDS):
            load.confirms(draw.randint(*CONFIRMED_PER_ROUND))
            before = broker.owner()
            successor = broker.standbys()[0]
            broker.hand_over(successor.name)
            load.loses_the_owner()
            wait_until(successor.is_owner, within_s=TAKEN_OVER_S, what="the standby that was named")
            load.connects(successor)
            broker.until_whole()
            assert before.role() == "standby"
        load.drains_and_checks(broker.owner())


def test_an_owner_that_stops_hands_over(tmp_path: Path) -> None:
    with loaded(tmp_path) as (broker, load):
        load.confirms(100)
        stopped = broker.owner()
        stopped.stop()
        load.loses_the_owner()
        load.connects(broker.owner())
        load.confirms(100)
        assert "hands over to" in stopped.stderr
        load.drains_and_checks(broker.owner())


def test_an_owner_that_was_paused_does_nothing_more_when_it_goes_on(tmp_path: Path) -> None:
    with loaded(tmp_path) as (broker, load):
        load.confirms(100)
        paused = broker.owner()
        paused.send_signal(signal.SIGSTOP)
        successor_of = [each for each in broker.replicas if each is not paused]
        wait_until(
            lambda: any(each.is_owner() for each in successor_of), within_s=TAKEN_OVER_S, what="an owner beside it"
        )
        paused.send_signal(signal.SIGCONT)
        load.loses_the_owner()
        load.connects(broker.owner())
        load.confirms(100)
        wait_until(lambda: paused.role() == "standby", within_s=TAKEN_OVER_S, what="a standby that was the owner")
        assert paused.metric("sluicegate_replica_owner") == 0
        load.drains_and_checks(broker.owner())


def test_nothing_is_confirmed_without_a_majority_and_all_goes_on_with_it(tmp_path: Path) -> None:
    with loaded(tmp_path) as (broker, load):
        load.confirms(100)
        owner = broker.owner()
        for server in broker.servers.servers[1:]:
            server.pause()
        load.hears_what_was_confirmed_before()
        confirmed = load.confirmed_count()
        load.loses_the_owner()  # it stops by itself: it cannot renew its key
        assert load.confirmed_count() == confirmed
        for server in broker.servers.servers[1:]:
            server.resume()
        load.connects(broker.owner())
        load.confirms(100)
        load.drains_and_checks(broker.owner())
        assert owner.is_running()


def test_each_nats_server_is_killed_and_comes_back(tmp_path: Path) -> None:
    with loaded(tmp_path) as (broker, load):
        for server in broker.servers.servers:
            load.goes_on(broker, 50)
            server.kill()
            load.goes_on(broker, 50)
            server.start()
            broker.until_whole()
        load.goes_on(broker, 50)
        load.drains_and_checks(broker.owner())


def test_an_owner_whose_clock_is_hours_ahead_expires_nothing_that_is_not_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ReplicatedBroker(tmp_path) as broker:
        owner = broker.owner()
        owner.create_queue("orders", respect_ttl_enabled=True)
        ahead = broker.standbys()
        for replica in ahead:
            replica.stop()
        with monkeypatch.context() as patched:
            patched.setenv("LD_PRELOAD", str(library("faketime/libfaketimeMT.so.1")))
            patched.setenv("FAKETIME", "+2h")
            patched.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            for replica in ahead:
                replica.start()
        broker.until_whole()
        url = f"{owner.http_url}/QUEUE/orders"
        stored_count = 0
        until_s = time.monotonic() + 3
        while time.monotonic() < until_s:  # the standbys always have something left to read
            answer = HTTP.post(
                url, content="for an hour", headers={"Solace-Time-To-Live-In-ms": "3600000"}, timeout=DRAIN_S
            )
            assert answer.status_code == 200
            stored_count += 1
        owner.kill9()
        successor = broker.owner()
        assert successor in ahead
        assert "SYSTEM_HA_CLOCK: - - this machine's clock is 7" in successor.stderr  # 7,200 s, or a little less
        assert successor.metric("sluicegate_replica_clock_ahead_seconds") > 7000
        assert successor.held_count("orders") == stored_count
        (other,) = [each for each in ahead if each is not successor]
        answer = HTTP.post(f"{successor.http_url}/QUEUE/orders", content="one more", timeout=DRAIN_S)
        assert answer.status_code == 200
        position = successor.metric("sluicegate_replica_position")
        wait_until(
            lambda: other.metric("sluicegate_replica_position") >= position, within_s=DRAIN_S, what="the other standby"
        )
        assert other.metric("sluicegate_replica_clock_ahead_seconds") > 7000, "the log's time is not that of its owner"


def test_an_owner_that_is_told_to_stop_while_it_hands_over_stops(tmp_path: Path) -> None:
    with loaded(tmp_path) as (broker, load):
        load.confirms(100)
        before = broker.owner()
        broker.hand_over()
        before.stop()
        load.loses_the_owner()
        load.connects(broker.owner())
        load.confirms(100)
        load.drains_and_checks(broker.owner())


def test_a_handover_without_servers_ends_with_the_lease(tmp_path: Path) -> None:
    with loaded(tmp_path) as (broker, load):
        load.confirms(100)
        broker.hand_over()
        for server in broker.servers.servers[1:]:
            server.pause()
        load.loses_the_owner()
        for server in broker.servers.servers[1:]:
            server.resume()
        load.connects(broker.owner())
        load.confirms(100)
        broker.until_whole()
        load.drains_and_checks(broker.owner())


def test_a_replica_whose_servers_are_away_says_so_and_stops_when_it_is_told(tmp_path: Path) -> None:
    with WaitingReplica(tmp_path, "a", ["nats://127.0.0.1:1"], {}) as replica:
        answer = HTTP.get(f"{replica.admin_url}/health/ready", timeout=DRAIN_S)
        assert answer.status_code == 503
        assert "replica a cannot take over: it waits for the NATS servers" in answer.json()["reasons"][0]
        wait_until(
            lambda: "no NATS server at nats://127.0.0.1:1 answers" in replica.stderr, within_s=DRAIN_S, what="why"
        )
        for path in ("/queues", "/definitions"):
            assert "replica a is starting" in HTTP.get(replica.admin_url + path, timeout=DRAIN_S).json()["detail"]
        document = {"version": 1, "message_vpns": {"default": {"queues": [{"name": "q"}]}}}
        refused = HTTP.post(f"{replica.admin_url}/definitions", json=document, timeout=DRAIN_S)
        assert (refused.status_code, "replica a is starting" in refused.json()["detail"]) == (409, True)
