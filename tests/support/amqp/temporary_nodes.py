"""Temporary queues that an AMQP client has the broker create."""

from sluicegate.actors.messages.directory import FindQueue
from sluicegate.protocols.amqp.codec.termini import Source
from sluicegate.protocols.amqp.links.dynamic_nodes import policy_properties
from sluicegate.protocols.amqp.registry import (
    DELETE_ON_CLOSE,
)
from support.amqp.client import AmqpClient
from support.broker.inside_client import until
from support.broker.running_broker import RunningBroker

BODY = 1  # of protocols.amqp.messages.decode: a data section


async def made_queue(client: AmqpClient, policy: int = DELETE_ON_CLOSE, *, handle: int = 0) -> str:
    source = Source(None, dynamic=True, dynamic_properties=policy_properties(policy))
    answer = await client.receiver(f"maker-{handle}", source, handle=handle)
    assert answer.source is not None
    assert answer.source.dynamic
    assert answer.source.dynamic_properties == policy_properties(policy)
    assert answer.source.address is not None
    return answer.source.address


async def queue_is_gone(broker: RunningBroker, name: str) -> None:
    async def gone() -> bool:
        return await broker.node.default.queues.ask(FindQueue(name)) is None

    await until(gone, f"{name} is gone")
