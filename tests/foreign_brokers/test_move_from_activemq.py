"""The way of docs/connect/coming-from/activemq.md, under load: nothing that either broker has confirmed is lost.

Programs send by AMQP 1.0 to a queue and to a virtual topic, as Qpid JMS does. None of them stops for the move.
"""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.foreign.brokers import ActiveMq
from support.load.amqp_consumer import AmqpWireConsumer
from support.load.amqp_publisher import AmqpWirePublisher
from support.load.delivery_record import DeliveryRecord
from support.load.mqtt_clients import Account, WireClient, hung_up_at_the_end, run_until
from support.processes.gateway import PYTHON, GatewayProcess, wait_until

WITHIN_S = 90
SOME = 100  # messages, between two steps
QUEUE = "ORDERS"
TOPIC = "VirtualTopic.NEWS"
OF_TOPIC = f"Consumer.desk.{TOPIC}"  # the queue of its consumers
SENDER = Account("sender", "engine-7")
WORKER = Account("worker", "press-4")
CONFIGURATION = f"""
<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans
    http://www.springframework.org/schema/beans/spring-beans.xsd
    http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="old" useJmx="false" dataDirectory="{{data}}">
    <destinations>
      <queue physicalName="{QUEUE}"/>
      <queue physicalName="{OF_TOPIC}"/>
    </destinations>
    <destinationInterceptors>
      <virtualDestinationInterceptor>
        <virtualDestinations>
          <virtualTopic name="VirtualTopic.&gt;" prefix="Consumer.*."/>
        </virtualDestinations>
      </virtualDestinationInterceptor>
    </destinationInterceptors>
    <plugins>
      <simpleAuthenticationPlugin>
        <users>
          <authenticationUser username="{SENDER.user}" password="{SENDER.password}" groups="senders"/>
          <authenticationUser username="{WORKER.user}" password="{WORKER.password}" groups="workers"/>
        </users>
      </simpleAuthenticationPlugin>
      <authorizationPlugin>
        <map>
          <authorizationMap>
            <authorizationEntries>
              <authorizationEntry queue="&gt;" read="workers" write="senders,workers" admin="senders,workers"/>
              <authorizationEntry topic="&gt;" read="workers" write="senders,workers" admin="senders,workers"/>
            </authorizationEntries>
          </authorizationMap>
        </map>
      </authorizationPlugin>
    </plugins>
    <transportConnectors>
      <transportConnector name="amqp" uri="amqp://127.0.0.1:{{amqp_port}}"/>
    </transportConnectors>
  </broker>
</beans>
"""

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(600)]


def imported(folder: Path, activemq: ActiveMq) -> Path:
    """Import the configuration, and return the new one with the bridge of the guide."""
    command = [*PYTHON, "import", "activemq", str(activemq.configuration_file), "--into", str(folder), "--node", "new"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    file = folder / "sluicegate.yaml"
    secret = folder / "bridge-password"
    secret.write_text(f"{WORKER.password}\n")
    configuration: dict[str, Any] = yaml.safe_load(file.read_text())
    configuration["bridges"] = [
        {
            "name": "activemq",
            "remote_url": f"amqp://127.0.0.1:{activemq.amqp_port}",
            "username": WORKER.user,
            "password_file": str(secret),
            "incoming": [{"remote_queue": QUEUE, "queue": QUEUE}, {"remote_queue": OF_TOPIC, "queue": OF_TOPIC}],
        }
    ]
    file.write_text(yaml.safe_dump(configuration))
    return file


def sender(name: str, to: str) -> AmqpWirePublisher:
    return AmqpWirePublisher(name, topic="", keys=[f"{name}a", f"{name}b"], window=10, account=SENDER, to=to)


def worker(name: str, queue: str, record: DeliveryRecord) -> AmqpWireConsumer:
    made = AmqpWireConsumer(name, queue=queue, record=record.note)
    made.account = WORKER
    return made


def test_clients_move_one_after_the_other_and_nothing_is_lost(tmp_path: Path) -> None:
    activemq = ActiveMq(tmp_path / "activemq", configuration=CONFIGURATION)
    if not activemq.is_installed():
        pytest.fail("ActiveMQ is not installed; scripts/bridge-needs installs it or says why not")
    queues = {QUEUE: f"queue://{QUEUE}", OF_TOPIC: f"topic://{TOPIC}"}
    records = {name: DeliveryRecord(f"consumers of {name}") for name in queues}
    senders = {name: [sender(f"s{name}{number}", to) for number in (1, 2)] for name, to in queues.items()}
    before = {name: worker(f"old-{name}", f"queue://{name}", records[name]) for name in queues}
    after = {name: worker(f"new-{name}", f"queue://{name}", records[name]) for name in queues}
    all_senders = [each for pair in senders.values() for each in pair]
    clients: list[WireClient] = [*all_senders, *before.values(), *after.values()]
    try:
        activemq.start()
        with hung_up_at_the_end(clients):
            for consumer in before.values():
                consumer.connect(activemq.amqp_port)
            for each in all_senders:
                each.connect(activemq.amqp_port)
            _came(clients, before)
            with GatewayProcess(tmp_path / "node", config_file=imported(tmp_path / "imported", activemq)) as node:
                wait_until(
                    lambda: node.metric("sluicegate_bridge_up", bridge="activemq") == 1,
                    within_s=WITHIN_S,
                    what="the bridge",
                )
                for consumer in after.values():
                    consumer.connect(node.amqp_port)
                _came(clients, before)  # ActiveMQ leaves a message group to its consumer while that is connected
                for consumer in before.values():
                    consumer.say_goodbye()
                _came(clients, after)

                for number in (0, 1):  # in between, one sender of each queue is here, and the other there
                    for pair in senders.values():
                        _moved(pair[number], node)
                    _came(clients, after)

                wanted = {name: _confirmed(senders[name]) for name in queues}
                run_until(clients, lambda: _have_all(records, wanted), within_s=WITHIN_S, what="what ActiveMQ had")
                activemq.stop()
                _came(clients, after)
                for each in all_senders:
                    each.publishing = False
                run_until(clients, lambda: all(each.is_idle for each in all_senders), within_s=WITHIN_S, what="answers")
                wanted = {name: _confirmed(senders[name]) for name in queues}
                run_until(clients, lambda: _have_all(records, wanted), within_s=WITHIN_S, what="all confirmed messages")
    finally:
        activemq.end()
    for name, record in records.items():
        record.check_nothing_is_lost(_confirmed(senders[name]))
        assert min(_confirmed(senders[name]).values()) > SOME // 4


def _confirmed(senders: list[AmqpWirePublisher]) -> dict[str, int]:
    return {key: number for each in senders for key, number in each.confirmed.items()}


def _have_all(records: dict[str, DeliveryRecord], confirmed: dict[str, dict[str, int]]) -> bool:
    """What is sent to the new broker overtakes what waits at the old one, so the last number of a key says nothing."""
    return not any(record.missing(confirmed[name]) for name, record in records.items())


def _came(clients: list[WireClient], consumers: dict[str, AmqpWireConsumer]) -> None:
    """Run until each consumer got some more."""
    wanted = {name: each.received_count + SOME for name, each in consumers.items()}
    run_until(
        clients,
        lambda: all(each.received_count >= wanted[name] for name, each in consumers.items()),
        within_s=WITHIN_S,
        what=f"{SOME} messages for each",
    )


def _moved(client: AmqpWirePublisher, node: GatewayProcess) -> None:
    """Have a sender break off, and repeat at the gateway what ActiveMQ has not confirmed."""
    client.hang_up()
    client.connect(node.amqp_port)
