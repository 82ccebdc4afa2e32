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
        await _declare(queues, PutTemplate(template, must_be_new=True), f"queue template {template.name!r}")
    for definition in config.declared:
        await _declare(queues, CreateQueue(definition, NAMED, durable=True), f"queue {definition.config.name!r}")


async def _declare(queues: ActorCell, asked: PutTemplate | CreateQueue, what: str) -> None:
    try:
        await queues.ask(asked)
    except (TemplateExists, QueueExists):
        return  # what was created before is left as it is
    except StoreRefused as refusal:  # a full store has to be opened, or it could not be emptied
        log.warning("%s was not created as declared: %s", what, refusal)
    else:
        log.info("%s created as declared", what)
