"""kill -9, again and again, beside hostile clients of every protocol: honest clients lose nothing.

Honest publishers and consumers of every protocol record confirmed and delivered messages. Hostile clients
(`support.hostile.clients`) have an account with the limits of a careful operator, a queue of their own with a quota,
and no other right; or no account at all.
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from support.hostile.clients import HONEST_QUEUE, OWN_QUEUE, OWN_TOPIC, HostileClients
from support.http.plain import HTTP
from support.load.amqp_consumer import AmqpWireConsumer
from support.load.amqp_publisher import AmqpWirePublisher
from support.load.delivery_record import DeliveryRecord
from support.load.flow_clients import FlowWireConsumer, FlowWirePublisher
from support.load.http_clients import HttpWireConsumer, HttpWirePublisher
from support.load.mqtt_clients import (
    Account,
    NumberedPublisher,
    WireClient,
    WireConsumer,
    WirePublisher,
    hung_up_at_the_end,
    run_until,
)
from support.processes.gateway import REQUEST_S, GatewayProcess
from support.thorough import amount

ROUNDS: Final = amount(6, thorough=20)
CONFIRMED_PER_ROUND: Final = (30, 200)  # drawn, so that kills hit all places
SEED: Final = 20_261_126
WITHIN_S: Final = 60
MIB: Final = 1 << 20
QUOTA_MIB: Final = 2
HONEST: Final = Account("plant", "an honest password")
HOSTILE: Final = Account("mallory", "a hostile password")
ARGON2: Final = "$argon2id$v=19$m=8192,t=1,p=1$c29tZXNhbHRzb21lc2FsdA$nqIcEmFUrXSjMmKnVn0qx0nFeGwGDWsxFyoGVaDnJoQ"
KNOWN: Final = "ada"  # whose password is guessed, and cannot be
MET: Final = (
    "forbidden publish: refused",
    "forbidden consumer: refused",
    "forbidden subscriber: refused",
    "guess: refused",
    "stranger: refused",
    "foreign page: 403",
    "filled by MQTT: 0x97",
    "filled by HTTP: 503",
)

CONFIGURATION: Final = f"""
authentication:
  allow_anonymous: false
  users:
    - {{name: {HONEST.user}, password_file: FOLDER/honest}}
    - {{name: {HOSTILE.user}, password_file: FOLDER/hostile, client_profile: narrow, acl_profile: narrow}}
    - {{name: {KNOWN}, password: "{ARGON2}"}}
  client_profiles:
    - name: narrow
      max_connection_count_per_client_username: 40
      max_egress_flow_count: 5
      max_ingress_flow_count: 5
      max_subscription_count: 10
      allow_guaranteed_endpoint_create_enabled: false
  acl_profiles:
    - name: narrow
      publish_topic_exceptions: [{{topic: {OWN_TOPIC}/>}}, {{topic: $queue/{OWN_QUEUE}}}]
      subscribe_topic_exceptions: [{{topic: {OWN_TOPIC}/>}}]
queues:
  declared:
    - name: {HONEST_QUEUE}
      owner: {HONEST.user}
      permission: no-access
      access_type: non-exclusive
      partition_count: 8
      partition_rebalance_delay_s: 0
      partition_rebalance_max_handoff_time_s: 1
      partition_key_source: topic-level:2
      subscriptions: [load/>, exact/>]
    - name: {OWN_QUEUE}
      owner: {HOSTILE.user}
      permission: no-access
      max_msg_spool_usage: {QUOTA_MIB}
      subscriptions: [{OWN_TOPIC}/>]
"""

Publisher = WirePublisher | NumberedPublisher
Condition = Callable[[], bool]

pytestmark = [pytest.mark.crash, pytest.mark.slow]


def configured(folder: Path) -> GatewayProcess:
    """Return a gateway with the accounts and queues of both."""
    for name, account in (("honest", HONEST), ("hostile", HOSTILE)):
        (folder / name).write_text(f"{account.password}\n")
        (folder / name).chmod(0o600)
    file = folder / "gate.yaml"
    file.write_text(CONFIGURATION.replace("FOLDER", str(folder)))
    return GatewayProcess(folder, {"health.enabled": True}, config_file=file)


class Honest:
    """Clients of every protocol and kind of guarantee, with what they were confirmed and what came."""

    def __init__(self) -> None:
        self.queue = DeliveryRecord("the queue")
        self.session = DeliveryRecord("the QoS 1 session")
        self.exact = DeliveryRecord("the QoS 2 session")
        note = self.queue.note
        self.at_least_once: dict[Publisher, str] = {
            WirePublisher("p4", topic="load", keys=["a", "b"], qos=1, level=4): "mqtt",
            WirePublisher("p5", topic="load", keys=["c", "d"], qos=1): "mqtt",
            AmqpWirePublisher("pa", topic="load", keys=["e", "f"], account=HONEST): "amqp",
            FlowWirePublisher("pf", topic="load", keys=["g", "h"], account=HONEST): "flow",
        }
        self.unmarked: dict[Publisher, str] = {  # nothing says of what they send again that they do
            HttpWirePublisher("ph", topic="load", keys=["i", "j"], account=HONEST): "http",
        }
        self.exactly_once: dict[Publisher, str] = {
            WirePublisher("x4", topic="exact", keys=["k", "l"], qos=2, level=4): "mqtt",
            WirePublisher("x5", topic="exact", keys=["m", "n"], qos=2): "mqtt",
        }
        own = f"$queue/{HONEST_QUEUE}"
        self.consumers: dict[WireClient, str] = {
            WireConsumer("c1", filter_text=own, qos=1, record=note, hold_count=20): "mqtt",
            WireConsumer("c2", filter_text=own, qos=2, record=note): "mqtt",
            AmqpWireConsumer("ca", queue=HONEST_QUEUE, record=note, hold_count=5, keys_cross=False): "amqp",
            FlowWireConsumer("cf", queue=HONEST_QUEUE, record=note, hold_count=5, account=HONEST): "flow",
            HttpWireConsumer("ch", queue=HONEST_QUEUE, record=note, hold_count=5, account=HONEST): "http",
            WireConsumer("s4", filter_text="load/#", qos=1, level=4, record=self.session.note, hold_count=10): "mqtt",
            WireConsumer("e5", filter_text="exact/#", qos=2, record=self.exact.note): "mqtt",
        }
        self.publishers = self.at_least_once | self.unmarked | self.exactly_once
        self.clients: list[WireClient] = [*self.consumers, *self.publishers]
        for client in self.clients:
            client.account = HONEST

    def connect(self, node: GatewayProcess) -> None:
        """Connect everybody; nothing is published before all sessions have subscribed."""
        for consumer, protocol in self.consumers.items():
            consumer.connect(node.ports[protocol])
        subscribers = [each for each in self.consumers if isinstance(each, WireConsumer)]
        self.run(lambda: all(each.subscribed for each in subscribers), "SUBACKs")
        for publisher, protocol in self.publishers.items():
            publisher.connect(node.ports[protocol])

    def run(self, condition: Condition, what: str) -> None:
        run_until(self.clients, condition, within_s=WITHIN_S, what=what)

    def confirm(self, count: int) -> None:
        """Run until each publisher has some more confirmations, and all of them together so many."""
        before = {publisher: publisher.confirmed_count for publisher in self.publishers}
        wanted = sum(before.values()) + count
        self.run(
            lambda: (
                sum(each.confirmed_count for each in self.publishers) >= wanted
                and all(each.confirmed_count > count for each, count in before.items())
            ),
            f"{count} confirmations, and some for everybody",
        )

    def lose_the_gateway(self) -> None:
        """The gateway is dead: take what it sent before."""
        for client in self.clients:
            client.read_to_the_end()

    def drain(self, node: GatewayProcess) -> None:
        """Publish no more, and run until everything has been confirmed and consumed."""
        for publisher in self.publishers:
            publisher.publishing = False
        self.run(lambda: all(publisher.is_idle for publisher in self.publishers), "the last confirmations")
        for consumer in self.consumers:
            assert isinstance(consumer, (WireConsumer, AmqpWireConsumer, FlowWireConsumer, HttpWireConsumer))
            consumer.hold_count = 0
            consumer.settle_down_to(0)
        self.run(lambda: self._has_all() and node.held_count(HONEST_QUEUE) == 0, "the last deliveries")

    def _has_all(self) -> bool:
        everything = confirmed_by(self.publishers)
        return (
            self.queue.has_all(everything)
            and self.session.has_all(confirmed_by(self.at_least_once | self.unmarked))
            and self.exact.has_all(confirmed_by(self.exactly_once))
        )

    def check(self) -> None:
        """Hold what came against what was confirmed."""
        for record, publishers in (
            (self.queue, self.publishers),
            (self.session, self.at_least_once | self.unmarked),
            (self.exact, self.exactly_once),
        ):
            record.check_nothing_is_lost(confirmed_by(publishers))
            record.check_order()
        self.queue.check_one_delivery_is_unmarked(confirmed_by(self.at_least_once | self.exactly_once))
        self.exact.check_nothing_is_repeated()


def confirmed_by(publishers: dict[Publisher, str]) -> dict[str, int]:
    """Return by key the highest number that was confirmed."""
    return {key: number for publisher in publishers for key, number in publisher.confirmed.items()}


def check_health(node: GatewayProcess) -> None:
    """Ask as probes do, on both ports."""
    for url in (node.health_url, node.admin_url):
        for path in ("/health/live", "/health/ready"):
            assert HTTP.get(url + path, timeout=REQUEST_S).status_code == 200, (url, path)


def check_limits(node: GatewayProcess) -> None:
    """What the hostile ones have is what they may have, and nothing of the spool is damaged."""
    held = node.queue(OWN_QUEUE)["spooled_bytes"]
    assert isinstance(held, int)
    assert held <= QUOTA_MIB * MIB
    assert node.metric("sluicegate_spool_damaged_records_total") == 0


def unmet(hostile: HostileClients) -> list[str]:
    """Return what no client has been answered yet: each attack is to have reached what it was made against."""
    return [each for each in MET if not hostile.answers[each]]


def check_answers(hostile: HostileClients) -> None:
    """No client got in without permission, each attack reached its target, and none failed by its own fault."""
    answers = hostile.answers
    assert hostile.failures == []
    assert [each for each in answers if each.endswith(": let in")] == []
    assert unmet(hostile) == [], answers
    pages = {each for each in answers if each.startswith("foreign page")}
    assert pages <= {f"foreign page: {status}" for status in (401, 403, 421)}


@pytest.mark.timeout(600)
def test_honest_clients_lose_nothing_to_hostile_ones_and_crashes(tmp_path: Path) -> None:
    """Ledgers of every protocol balance, quotas hold, probes are answered, and the spool is whole."""
    draw, honest = random.Random(SEED), Honest()
    node = configured(tmp_path)
    with node, hung_up_at_the_end(honest.clients), HostileClients(node.ports, HOSTILE, KNOWN, seed=SEED) as hostile:
        for _ in range(ROUNDS):
            honest.connect(node)
            honest.confirm(draw.randint(*CONFIRMED_PER_ROUND))
            check_health(node)
            check_limits(node)
            node.kill9()
            honest.lose_the_gateway()
            node.start()
        honest.connect(node)
        honest.confirm(CONFIRMED_PER_ROUND[1])
        honest.run(lambda: not unmet(hostile), "an answer to each attack")
        honest.drain(node)
        check_health(node)
        check_limits(node)
        honest.check()
    check_answers(hostile)
    examined = node.command("doctor", "--data", str(node.data))
    assert examined.returncode == 0, examined.stdout
