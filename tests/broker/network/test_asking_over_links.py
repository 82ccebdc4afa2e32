"""Operators ask one broker about a queue of its neighbor, and are shown what the neighbor would show."""

import asyncio

import pytest

from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.errors import QueueNotFound, Refused
from sluicegate.protocols.network.queues import questions
from support.broker.linked_brokers import Brokers, until
from support.broker.named_queues import create


async def queue_at_b(network: Brokers, **attributes: object) -> NodeOperations:
    """Make queue q at b; return the operations at a, which knows it."""
    await create(network["b"], "q", **attributes)
    await until(lambda: network["a"].node.default.space.queue_home("q") is not None, "a knows q")
    return NodeOperations(network["a"].node)


async def test_a_queue_of_the_neighbor_is_shown_as_the_neighbor_shows_it(network: Brokers) -> None:
    operations = await queue_at_b(network, access_type="non-exclusive", partition_count=4)
    client = await network["a"].connect("publisher", 5)
    assert await client.publish("$queue/q", b"x", qos=1) == 0
    await until(lambda: network["b"].node.default.gate.usage_bytes > 0, "the message is at b")

    view = await operations.show_queue("q")

    assert (view.name, view.broker, view.config.partition_count, len(view.partitions)) == ("q", "b", 4, 4)
    assert view.ready_count == 1
    assert (await NodeOperations(network["b"].node).show_queue("q")).broker == ""


async def test_a_consumer_here_is_shown_where_the_queue_is(network: Brokers) -> None:
    operations = await queue_at_b(network)
    consumer = await network["a"].connect("consumer", 5)
    await consumer.subscribe(("$queue/q", 1))
    (flow,) = (await operations.show_queue("q")).flows
    assert flow.client == "consumer@a"


async def test_why_a_key_waits_is_said_by_the_broker_that_has_the_queue(network: Brokers) -> None:
    operations = await queue_at_b(network, access_type="non-exclusive", partition_count=4)
    told = await operations.explain_key("q", "k1")
    assert (told.broker, told.queue, told.key, told.reason) == ("b", "q", "k1", "nothing-waits")
    here = await NodeOperations(network["b"].node).explain_key("q", "k1")
    assert (here.broker, here.partition, here.key_hash) == ("", told.partition, told.key_hash)


async def test_a_question_over_a_link_that_is_down_is_refused_with_the_reason(network: Brokers) -> None:
    proxy = await network.proxy("a", "b")
    operations = await queue_at_b(network)
    proxy.cut()
    await until(lambda: not network["a"].neighbor("b").is_up, "the link is down")
    with pytest.raises(Refused, match="queue 'q' is at broker b"):
        await operations.show_queue("q")


async def test_a_question_without_an_answer_ends_with_the_link(network: Brokers) -> None:
    await queue_at_b(network)
    link = network["a"].neighbor("b").vpns[0]
    network["b"].node.links.answerer.answers = _late
    answer = link.questions.ask("queue", ["q"])
    link.questions.disconnected()
    with pytest.raises(questions.QuestionFailed, match="went down"):
        await answer


async def _late(vpn: str, what: str, names: list[str]) -> tuple[str, str]:
    await asyncio.sleep(0.1)
    return "{}", ""


async def test_what_a_neighbor_cannot_say_is_refused(network: Brokers) -> None:
    await queue_at_b(network)
    link = network["a"].neighbor("b").vpns[0]
    with pytest.raises(questions.QuestionFailed, match="'colour'"):
        await link.questions.ask("colour", ["q"])
    with pytest.raises(questions.QuestionFailed, match="no queue"):
        await link.questions.ask("queue", ["other"])
    network["b"].node.links.answerer.answers = None
    with pytest.raises(questions.QuestionFailed, match="no ports for operators"):
        await link.questions.ask("queue", ["q"])


async def test_a_name_that_no_broker_has_is_not_found(network: Brokers) -> None:
    operations = await queue_at_b(network)
    with pytest.raises(QueueNotFound):
        await operations.show_queue("other")
