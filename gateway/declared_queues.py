"""Queues and templates that a configuration declares: made at the start and by a reload, and then left as they are."""

import logging

from actors.cell import ActorCell
from actors.directory_messages import CreateQueue, PutTemplate, QueueExists, TemplateExists
from actors.queue_assembly import NAMED
from actors.queue_directory import StoreRefused
from gateway.config.sections import Queues

log = logging.getLogger("sluicegate.node")


async def declare_queues(queues: ActorCell, config: Queues) -> None:
    """Create those templates and queues of a configuration that there are not."""
    for template in config.templates:
        try:
            await queues.ask(PutTemplate(template, must_be_new=True))
        except TemplateExists:
            continue
        log.info("queue template %r created as declared", template.name)
    for definition in config.declared:
        try:
            await queues.ask(CreateQueue(definition, NAMED, durable=True))
        except QueueExists:
            continue  # one that was created before is left as it is
        except StoreRefused as refusal:  # a full store has to be opened, or it could not be emptied
            log.warning("queue %r was not created as declared: %s", definition.config.name, refusal)
            continue
        log.info("queue %r created as declared", definition.config.name)
