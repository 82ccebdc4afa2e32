"""What explain says of messages that definitions send on."""

import pytest

from support.broker.named_queues import create
from support.broker.operator_views import explained
from support.broker.running_broker import RunningBroker
from support.broker.virtual_clients import consumer, publish, subscriber


@pytest.mark.settings(
    "virtual_destinations.composite_topics=[{name: in, forward_to: [{topic: VirtualTopic.O}, {queue: tap}, "
    "{queue: large, selector: 'amount > 10'}]}]"
)
async def test_each_step_is_named_with_its_definition_and_condition(broker: RunningBroker) -> None:
    await consumer(broker, "Consumer.A.VirtualTopic.O")
    await subscriber(broker, "VirtualTopic.O", qos=0)
    await create(broker, "never", subscriptions=["in"])
    answer = await explained(broker, "in", properties=(("amount", 11),))
    assert answer.verdict == "accepted"
    assert [(each.name, each.filter, each.verdict, each.reason) for each in answer.destinations] == [
        ("never", "in", "kept-out", "composite topic in has forward_only"),
        ("client-2", "composite topic in", "delivered", ""),
        ("Consumer.A.VirtualTopic.O", "composite topic in: virtual topic VirtualTopic.>", "spooled", ""),
        ("tap", "composite topic in", "spooled", ""),
        ("large", "composite topic in", "spooled", "it is selected: amount > 10"),
    ]
    [*_, large] = (await explained(broker, "in")).destinations
    assert (large.name, large.verdict, large.reason) == ("large", "not-selected", "it is not selected: amount > 10")
    assert await publish(broker, "in", b"m") == [0]


async def test_a_queue_of_a_virtual_topic_says_whose_it_is(broker: RunningBroker) -> None:
    await consumer(broker, "Consumer.A.VirtualTopic.>")
    [view] = (await explained(broker, "VirtualTopic/O", key="k")).destinations
    assert (view.name, view.filter) == ("Consumer.A.VirtualTopic.>", "virtual topic VirtualTopic.>")
    assert [each for each in view.checks if each.refused] == []
