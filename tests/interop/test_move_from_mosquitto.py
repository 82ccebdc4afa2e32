"""The way of docs/connect/coming-from/mosquitto.md, under load: nothing that either broker has confirmed is lost."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.foreign.brokers import Mosquitto, running
from support.load.delivery_record import DeliveryRecord
from support.load.mqtt_clients import (
    Account,
    NotLetIn,
    WireClient,
    WireConsumer,
    WirePublisher,
    hung_up_at_the_end,
    run_until,
)
from support.processes.foreign_programs import program
from support.processes.gateway import PYTHON, GatewayProcess, wait_until

WITHIN_S = 60
SOME = 100  # messages, between two steps
DEVICE = Account("device", "engine-7")
BRIDGE = Account("bridge", "across")
ACL = "user device\ntopic readwrite plant/#\nuser bridge\ntopic readwrite plant/#\n"
CARRIES = "bridge/old/1"
LISTENERS = ("mqtt_websocket", "amqp", "flow", "http")  # of tests' gateways, which the import closes

pytestmark = [pytest.mark.interop, pytest.mark.slow]


def mosquitto_with_users(folder: Path) -> Mosquitto:
    """Return a mosquitto with accounts of its own program, not started."""
    folder.mkdir()
    passwords = folder / "passwords"
    for number, account in enumerate((DEVICE, BRIDGE)):
        create = ["-c"] if number == 0 else []
        subprocess.run(
            [program("mosquitto_passwd"), *create, "-b", str(passwords), *account], check=True, capture_output=True
        )
    (folder / "acl").write_text(ACL)
    return Mosquitto(folder, access=f"allow_anonymous false\npassword_file {passwords}\nacl_file {folder / 'acl'}")


def imported(folder: Path, mosquitto: Mosquitto) -> Path:
    """Import the configuration, and return the new one."""
    done = subprocess.run(
        [*PYTHON, "import", "mosquitto", str(mosquitto.configuration), "--into", str(folder), "--node", "new"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Could not be taken" in done.stdout
    return folder / "sluicegate.yaml"


def with_bridge(file: Path, mosquitto: Mosquitto) -> None:
    """Add the bridge of the guide."""
    secret = file.parent / "bridge-password"
    secret.write_text(f"{BRIDGE.password}\n")
    configuration: dict[str, Any] = yaml.safe_load(file.read_text())
    configuration["queues"] = {
        "declared": [
            {"name": CARRIES, "owner": "#bridge/old", "permission": "no-access", "subscriptions": ["plant/#"]},
        ]
    }
    configuration["bridges"] = [
        {
            "name": "old",
            "remote_url": mosquitto.url,
            "username": BRIDGE.user,
            "password_file": str(secret),
            "outgoing": [{"queue": CARRIES}],
            "incoming": [{"remote_topic": "plant/#"}],
        }
    ]
    file.write_text(yaml.safe_dump(configuration))


def publisher(name: str) -> WirePublisher:
    made = WirePublisher(name, topic="plant", keys=[f"{name}a", f"{name}b"], qos=1, window=10)
    made.account = DEVICE
    return made


def subscriber(name: str, record: DeliveryRecord) -> WireConsumer:
    made = WireConsumer(name, filter_text="plant/#", qos=1, record=record.note)
    made.account = DEVICE
    return made


def test_clients_move_one_after_the_other_and_nothing_is_lost(tmp_path: Path) -> None:
    program("mosquitto")
    moves, stays = DeliveryRecord("the subscriber that moves"), DeliveryRecord("the one that stays for long")
    first, second = publisher("p1"), publisher("p2")
    before, after, late = subscriber("s1", moves), subscriber("s1", moves), subscriber("s2", stays)
    clients: list[WireClient] = [first, second, before, after, late]
    with running(mosquitto_with_users(tmp_path / "mosquitto")) as mosquitto, hung_up_at_the_end(clients):
        file = imported(tmp_path / "imported", mosquitto)
        with_bridge(file, mosquitto)
        settings: dict[str, object] = {f"listeners.{name}.enabled": True for name in LISTENERS}
        with GatewayProcess(tmp_path / "node", settings, config_file=file) as node:
            for consumer in (before, late):
                consumer.connect(mosquitto.mqtt_port)
            run_until(clients, lambda: before.subscribed and late.subscribed, within_s=WITHIN_S, what="subscriptions")
            for each in (first, second):
                each.connect(mosquitto.mqtt_port)
            wait_until(
                lambda: node.metric("sluicegate_bridge_up", bridge="old") == 1, within_s=WITHIN_S, what="the bridge"
            )
            _came(clients, before, SOME)

            after.connect(node.mqtt_port)  # the subscriber, with its password of mosquitto
            run_until(clients, lambda: after.subscribed, within_s=WITHIN_S, what="the subscription")
            _came(clients, after, SOME)
            confirmed = {**first.confirmed, **second.confirmed}
            run_until(clients, lambda: moves.has_all(confirmed), within_s=WITHIN_S, what="what mosquitto had for it")
            before.say_goodbye()

            _moved(first, node)  # one publisher is here, and the other there
            _came(clients, after, SOME)
            _came(clients, late, SOME)
            _moved(second, node)
            _came(clients, late, SOME)

            confirmed = _at_rest(clients, [first, second])
            run_until(clients, lambda: stays.has_all(confirmed), within_s=WITHIN_S, what="all at mosquitto")
            wait_until(lambda: not node.held_count(CARRIES), within_s=WITHIN_S, what="confirmations of mosquitto")
            late.say_goodbye()
            mosquitto.stop()
            first.publishing = second.publishing = True
            _came(clients, after, SOME)
            confirmed = _at_rest(clients, [first, second])
            run_until(clients, lambda: moves.has_all(confirmed), within_s=WITHIN_S, what="all confirmed messages")
    moves.check_nothing_is_lost(confirmed)
    assert min(confirmed.values()) > SOME // 4


def test_accounts_keep_their_passwords(tmp_path: Path) -> None:
    program("mosquitto")
    with running(mosquitto_with_users(tmp_path / "mosquitto")) as mosquitto:
        file = imported(tmp_path / "imported", mosquitto)
        settings: dict[str, object] = {f"listeners.{name}.enabled": True for name in LISTENERS}
        with GatewayProcess(tmp_path / "node", settings, config_file=file) as node:
            for port in (mosquitto.mqtt_port, node.mqtt_port):
                for account, is_let_in in ((DEVICE, True), (Account("device", "engine-8"), False), (None, False)):
                    client = WireClient("c", persistent=False)
                    client.account = account
                    with hung_up_at_the_end([client]):
                        if is_let_in:
                            client.connect(port)
                            continue
                        with pytest.raises(NotLetIn):
                            client.connect(port)


def _came(clients: list[WireClient], consumer: WireConsumer, count: int) -> None:
    """Run until a consumer got so many more."""
    wanted = consumer.received_count + count
    run_until(clients, lambda: consumer.received_count >= wanted, within_s=WITHIN_S, what=f"{count} messages")


def _moved(client: WirePublisher, node: GatewayProcess) -> None:
    """Have a publisher break off, and repeat at the gateway what mosquitto has not confirmed."""
    client.hang_up()
    client.connected_count = 0  # its session stays behind
    client.connect(node.mqtt_port)


def _at_rest(clients: list[WireClient], publishers: list[WirePublisher]) -> dict[str, int]:
    """Publish no more; return the last number of each key, when all are confirmed."""
    for each in publishers:
        each.publishing = False
    run_until(clients, lambda: all(each.is_idle for each in publishers), within_s=WITHIN_S, what="confirmations")
    return {key: number for each in publishers for key, number in each.confirmed.items()}
