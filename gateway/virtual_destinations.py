"""The virtual destinations of a node, as its configuration has them: told to those who keep to them."""

import logging
from typing import TYPE_CHECKING

from actors.directory_messages import DefineConsumerQueues, FindQueue
from actors.router_messages import DefineVirtualDestinations
from gateway.config import Config

if TYPE_CHECKING:
    from gateway.node import Node

log = logging.getLogger("sluicegate.node")


async def define_virtual_destinations(node: "Node", config: Config) -> None:
    """Put the definitions of a configuration in force, and make the queues that they name."""
    section = config.virtual_destinations
    definitions = section.definitions()
    for finding in section.warnings():
        where = ".".join(str(part) for part in ("virtual_destinations", *finding.place))
        log.warning("%s: %s", where, finding.text)
    await node.queues.ask(DefineConsumerQueues(definitions, section.create_consumer_queues))
    for name in definitions.queue_names():
        if await node.queues.ask(FindQueue(name, "")) is None:
            log.warning("queue %r, which a virtual destination names, is not there", name)
    await node.router.ask(DefineVirtualDestinations(definitions))
