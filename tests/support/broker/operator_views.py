"""The views that a broker under test gives operators."""

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.queues.explanations import ExampleMessage, PublishExplanation
from support.broker.running_broker import RunningBroker


async def explained(broker: RunningBroker, topic: str, **message: object) -> PublishExplanation:
    specimen = ExampleMessage(topic=topic, **message)  # type: ignore[arg-type]  # fields of a specimen
    return await NodeOperations(broker.node).explain_publish(specimen, queue=None)


async def counted(broker: RunningBroker, metric: str) -> dict[str, float]:
    """The values of a metric by reason."""
    found: dict[str, float] = {}
    for sample in await NodeOperations(broker.node).metrics_snapshot():
        if sample.name == metric and sample.value:
            found[sample.labels[-1]] = found.get(sample.labels[-1], 0) + sample.value
    return found


async def event_texts(broker: RunningBroker, name: str) -> list[str]:
    events = await NodeOperations(broker.node).events(after=0, limit=1000)
    return [each.text for each in events if each.event == name]
