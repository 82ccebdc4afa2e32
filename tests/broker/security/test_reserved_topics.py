"""Nobody but the gateway publishes on topics that begin with `$SYS/`, where its events are.

Those that begin with `$queue/` are MQTT's addresses of queues and no topics to anybody else; nobody subscribes to them.
"""

import pytest

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.queues.explanations import ExampleMessage
from sluicegate.protocols.amqp.codec.termini import Source
from sluicegate.protocols.flow.codec import codes
from support.amqp.client import AmqpClient, AmqpClients, refused_with
from support.broker.named_queues import create, shown
from support.broker.running_broker import RunningBroker
from support.flow.client import FlowClient, Refused, subscribes
from support.http.client import http_client

FORGED = "$SYS/LOG/ERROR/SYSTEM/sluicegate/SYSTEM_AD_MSG_SPOOL_CHG"
TOPICS = pytest.mark.parametrize("topic", [FORGED, "$queue/q"])


@TOPICS
@pytest.mark.parametrize("path", ["/TOPIC/{}", "/{}"])
async def test_http_clients_are_refused(broker: RunningBroker, topic: str, path: str) -> None:
    await create(broker)
    async with http_client(broker) as client:
        answer = await client.post(path.format(topic), content="forged")
    assert (answer.status_code, "are the gateway's" in answer.text) == (400, True)
    assert (await shown(broker)).accepted_total == 0


@TOPICS
async def test_amqp_senders_are_refused(broker: RunningBroker, amqp: AmqpClients, topic: str) -> None:
    await create(broker)
    client = await amqp.connect()
    await client.sender("out", f"topic://{topic}")
    await client.is_detached("amqp:invalid-field")


@pytest.mark.parametrize(("level", "qos"), [(4, 0), (4, 1), (4, 2), (5, 0)])
async def test_messages_dropped_without_an_answer_to_their_mqtt_publisher_are_counted(
    broker: RunningBroker, level: int, qos: int
) -> None:
    """[3.1.1: 3.3.5-2] leaves nothing but to acknowledge and drop it."""
    client = await broker.connect(level=level)
    await client.publish(FORGED, b"forged", qos=qos)
    await client.round_trip()
    samples = await NodeOperations(broker.node).metrics_snapshot()
    name = "sluicegate_messages_dropped_total"
    assert [each.value for each in samples if each.name == name and each.labels == ("invalid_topic",)] == [1]


@pytest.mark.parametrize("topic", [FORGED, "$queue/#q", "a/+/b", "a/#"])
async def test_explain_says_that_no_client_may_publish_there(broker: RunningBroker, topic: str) -> None:
    await create(broker, subscriptions=[">"])
    answer = await NodeOperations(broker.node).explain_publish(ExampleMessage(topic=topic), queue=None)
    assert (answer.verdict, answer.reason[:17]) == ("refused", "400 Invalid Topic")


@pytest.mark.parametrize("topic_filter", ["$queue/q", "$queue/#"])
async def test_a_subscription_to_the_topic_of_a_queue_does_not_get_its_messages(
    broker: RunningBroker, topic_filter: str
) -> None:
    """Who may consume a queue is said by its permission, and a subscription does not ask that."""
    await create(broker)
    mqtt = await broker.connect(level=5)
    assert await mqtt.subscribe(f"$share/g/{topic_filter}", qos=1) == [0x87]
    async with FlowClient(broker.flow_port) as flow:
        with pytest.raises(Refused) as refusal:
            await subscribes(flow, topic_filter)
        assert refusal.value.error.code == codes.PERMISSION_DENIED
    amqp = await AmqpClient.open(broker.amqp_port, "reader")
    answer = await amqp.receiver("in", Source(f"topic://{topic_filter}"))
    assert await refused_with(amqp, answer) == "amqp:unauthorized-access"
    await amqp.close()


async def test_a_queue_is_published_to_by_its_own_address(broker: RunningBroker, amqp: AmqpClients) -> None:
    await create(broker)
    client = await amqp.connect()
    await client.sender("out", "queue://q")
    async with http_client(broker) as web:
        assert (await web.post("/QUEUE/q", content="m")).status_code == 200
    view = NodeOperations(broker.node)
    explained = await view.explain_publish(ExampleMessage(topic=""), queue="q")
    assert explained.verdict == "accepted"
    as_topic = await view.explain_publish(ExampleMessage(topic="$queue/q"), queue=None)
    assert (as_topic.verdict, as_topic.destinations) == ("accepted", explained.destinations)
    missing = await view.explain_publish(ExampleMessage(topic="$queue/none"), queue=None)
    assert (missing.verdict, missing.reason) == ("refused", "400 Queue Not Found: there is no such queue (none)")
