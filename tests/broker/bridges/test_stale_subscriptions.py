"""What a bridge over MQTT has subscribed to, and its configuration no longer has."""

from pathlib import Path

import pytest

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.clients.subscriptions import SmrpQuery
from support.bridges.brokers import all_up, another_broker, bridges, connect, mqtt_url, shows
from support.broker.running_broker import RunningBroker

VERSIONS = pytest.mark.parametrize("version", ["3.1.1", "5"])


async def subscribed(other: RunningBroker) -> list[str]:
    """Return the filters of the bridge's session at the other broker."""
    view = await NodeOperations(other.node).smrp_subscriptions(SmrpQuery(destination_name="sluicegate-b"))
    return sorted(each.subscription for each in view.subscriptions)


@VERSIONS
async def test_a_changed_bridge_unsubscribes_from_what_no_rule_has(
    broker: RunningBroker, tmp_path: Path, version: str
) -> None:
    async with another_broker(tmp_path) as other:
        told = {"mqtt_version": version, "remote_url": mqtt_url(other)}
        await connect(broker, **told, incoming=[{"remote_topic": "old/#"}, {"remote_topic": "kept/+"}])
        assert await subscribed(other) == ["kept/+", "old/#"]
        await connect(broker, **told, incoming=[{"remote_topic": "kept/+"}, {"remote_topic": "new/#"}])
        assert await subscribed(other) == ["kept/+", "new/#"]


@VERSIONS
async def test_a_bridge_unsubscribes_when_it_was_changed_while_the_broker_was_stopped(
    broker: RunningBroker, tmp_path: Path, version: str
) -> None:
    async with another_broker(tmp_path) as other:
        told = {"mqtt_version": version, "remote_url": mqtt_url(other)}
        await connect(broker, **told, incoming=[{"remote_topic": "old/#"}])
        await broker.restart("node.name=sluicegate", bridges({**told, "incoming": [{"remote_topic": "new/#"}]}))
        await shows(broker, all_up)
        assert await subscribed(other) == ["new/#"]


@VERSIONS
async def test_what_comes_by_a_subscription_that_is_not_known_of_is_counted(
    broker: RunningBroker, tmp_path: Path, version: str
) -> None:
    """A client with the identifier of the bridge had subscribed before, such as a bridge of another program."""
    async with another_broker(tmp_path) as other:
        before = await other.connect("sluicegate-b", 4, clean_start=False)
        await before.subscribe("unknown/#", qos=1)
        await before.leave()
        await connect(
            broker, mqtt_version=version, remote_url=mqtt_url(other), incoming=[{"remote_topic": "known/#", "qos": 1}]
        )
        publisher = await other.connect("publisher")
        await publisher.publish("unknown/1", b"1", qos=1)
        await shows(broker, lambda view: view.unmatched == 1)
