"""The way of docs/connect/coming-from/rabbitmq.md, under load: nothing that either broker has confirmed is lost.

Devices publish by MQTT to `amq.topic`, and applications consume the bound queue by AMQP 1.0.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.foreign.brokers import RabbitMq
from support.load.amqp_consumer import AmqpWireConsumer
from support.load.delivery_record import DeliveryRecord
from support.load.mqtt_clients import Account, WireClient, WirePublisher, hung_up_at_the_end, run_until
from support.processes.gateway import PYTHON, GatewayProcess, wait_until

WITHIN_S = 90
SOME = 100  # messages, between two steps
QUEUE = "orders"
DEVICE = Account("device", "engine-7")
WORKER = Account("worker", "press-4")
RIGHTS = {  # of each user, as regular expressions: to configure, to write, to read
    DEVICE: ("^mqtt-.*", "^(amq.topic|mqtt-.*)$", "^(amq.topic|mqtt-.*)$"),
    WORKER: ("", f"^{QUEUE}$", f"^{QUEUE}$"),
}

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(600)]


def define(rabbitmq: RabbitMq) -> None:
    """Create the queue for what devices publish below `plant`, and the users."""
    for (user, password), (configure, write, read) in RIGHTS.items():
        rabbitmq.manage("PUT", f"/users/{user}", {"password": password, "tags": ""})
        rabbitmq.manage("PUT", f"/permissions/%2F/{user}", {"configure": configure, "write": write, "read": read})
    rabbitmq.manage("PUT", f"/queues/%2F/{QUEUE}", {"durable": True})
    rabbitmq.manage("POST", f"/bindings/%2F/e/amq.topic/q/{QUEUE}", {"routing_key": "plant.#"})


def imported(folder: Path, rabbitmq: RabbitMq) -> Path:
    """Import the definitions, and return the new configuration with the bridge of the guide."""
    folder.mkdir()
    definitions = folder / "definitions.json"
    definitions.write_text(json.dumps(rabbitmq.manage("GET", "/definitions")))
    command = [*PYTHON, "import", "rabbitmq", str(definitions), "--into", str(folder / "new"), "--node", "new"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    file = folder / "new" / "sluicegate.yaml"
    secret = folder / "bridge-password"
    secret.write_text(f"{WORKER.password}\n")
    configuration: dict[str, Any] = yaml.safe_load(file.read_text())
    configuration["bridges"] = [
        {
            "name": "rabbit",
            "remote_url": f"amqp://127.0.0.1:{rabbitmq.amqp_port}",
            "username": WORKER.user,
            "password_file": str(secret),
            "incoming": [{"remote_queue": rabbitmq.known_address(QUEUE), "queue": QUEUE}],
        }
    ]
    file.write_text(yaml.safe_dump(configuration))
    return file


def publisher(name: str) -> WirePublisher:
    made = WirePublisher(name, topic="plant", keys=[f"{name}a", f"{name}b"], qos=1, level=4, window=10)
    made.account = DEVICE
    return made


def worker(name: str, queue: str, record: DeliveryRecord) -> AmqpWireConsumer:
    made = AmqpWireConsumer(name, queue=queue, record=record.note, keys_cross=False)
    made.account = WORKER
    return made


def test_clients_move_one_after_the_other_and_nothing_is_lost(rabbitmq: RabbitMq, tmp_path: Path) -> None:
    record = DeliveryRecord("the workers")
    first, second = publisher("p1"), publisher("p2")
    before, after = worker("w1", rabbitmq.known_address(QUEUE), record), worker("w2", QUEUE, record)
    clients: list[WireClient] = [first, second, before, after]
    define(rabbitmq)
    with hung_up_at_the_end(clients):
        before.connect(rabbitmq.amqp_port)
        for each in (first, second):
            each.connect(rabbitmq.mqtt_port)
        _came(clients, before)
        file = imported(tmp_path / "imported", rabbitmq)
        with GatewayProcess(tmp_path / "node", config_file=file) as node:
            wait_until(
                lambda: node.metric("sluicegate_bridge_up", bridge="rabbit") == 1, within_s=WITHIN_S, what="the bridge"
            )
            after.connect(node.amqp_port)  # both consume for a while
            _came(clients, after)
            before.say_goodbye()
            _came(clients, after)

            _moved(first, node)  # one publisher is here, and the other there
            _came(clients, after)
            _moved(second, node)
            _came(clients, after)

            confirmed = {**first.confirmed, **second.confirmed}
            run_until(clients, lambda: record.has_all(confirmed), within_s=WITHIN_S, what="what RabbitMQ had")
            wait_until(  # as its operator would; the number is some seconds old
                lambda: rabbitmq.manage("GET", f"/queues/%2F/{QUEUE}").get("messages") == 0,
                within_s=WITHIN_S,
                what="an empty queue at RabbitMQ",
            )
            rabbitmq.stop()
            _came(clients, after)
            for each in (first, second):
                each.publishing = False
            run_until(clients, lambda: first.is_idle and second.is_idle, within_s=WITHIN_S, what="confirmations")
            confirmed = {**first.confirmed, **second.confirmed}
            run_until(clients, lambda: record.has_all(confirmed), within_s=WITHIN_S, what="all confirmed messages")
    record.check_nothing_is_lost(confirmed)
    assert min(confirmed.values()) > SOME // 4


def _came(clients: list[WireClient], consumer: AmqpWireConsumer) -> None:
    """Run until a consumer got some more."""
    wanted = consumer.received_count + SOME
    run_until(clients, lambda: consumer.received_count >= wanted, within_s=WITHIN_S, what=f"{SOME} messages")


def _moved(client: WirePublisher, node: GatewayProcess) -> None:
    """Have a publisher break off, and repeat at the gateway what RabbitMQ has not confirmed."""
    client.hang_up()
    client.connected_count = 0  # its session stays behind
    client.connect(node.mqtt_port)
