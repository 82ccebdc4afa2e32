"""Queues and templates that a configuration declares: made at the start and by a reload, and then left as they are."""

import logging
from typing import cast

from sluicegate.actors.messages.directory import (
    CreateQueue,
    FindQueue,
    PutTemplate,
    QueueExists,
    QueueHandle,
    TemplateExists,
    UpdateRefused,
)
from sluicegate.actors.queues.assembly import NAMED
from sluicegate.actors.runtime.cell import ActorCell
from sluicegate.actors.spool.stored_answer import StoreRefused
from sluicegate.gateway.config.sections.node import Queues
from sluicegate.messaging.queues.definition import QueueDefinition
from sluicegate.messaging.queues.wrong_value import seen

log = logging.getLogger("sluicegate.node")


async def declare_queues(queues: ActorCell, config: Queues) -> list[str]:
    """Create those templates and queues of a configuration that there are not. Return what is to be warned of."""
    asked: list[tuple[str, PutTemplate | CreateQueue]] = [
        *((f"queue template {each.name!r}", PutTemplate(each, must_be_new=True)) for each in config.templates),
        *(
            (f"queue {each.config.name!r}", CreateQueue(each, NAMED, durable=True, gives_back=True))
            for each in config.declared
        ),
    ]
    warnings = []
    for what, message in asked:
        is_lost = isinstance(message, CreateQueue) and await _has_lost_definition(queues, message.definition)
        try:
            await queues.ask(message)
        except (TemplateExists, QueueExists):
            continue  # what was created before is left as it is
        except UpdateRefused as refusal:  # the count of partitions, while some are read
            warnings.append(f"{what} does not get back the definition that it lost: {refusal}")
            log.warning("%s", warnings[-1])
        except StoreRefused as refusal:  # a full store has to be opened, or it could not be emptied
            warnings.append(f"{what} was not created as declared: {refusal}")
            log.warning("%s", warnings[-1])
        else:
            log.info("%s %s", what, "had lost its definition, and is as declared" if is_lost else "created as declared")
    return warnings + await _not_as_declared(queues, config)


async def _has_lost_definition(queues: ActorCell, declared: QueueDefinition) -> bool:
    found: QueueHandle | None = await queues.ask(FindQueue(declared.config.name))
    return found is not None and found.definition_lost


async def _not_as_declared(queues: ActorCell, config: Queues) -> list[str]:
    """Return how queues that were created before differ from what is declared: who changed that may expect more."""
    told = []
    for declared in config.declared:
        handle: QueueHandle | None = await queues.ask(FindQueue(declared.config.name))
        differences = [] if handle is None else _differences(handle.definition, declared)
        if differences:
            told.append(f"queue {declared.config.name!r} stays as it is: {'; '.join(differences)}")
            log.info("%s", told[-1])
    return told


def _differences(there: QueueDefinition, declared: QueueDefinition) -> list[str]:
    wanted, found = declared.to_dict(), there.to_dict()
    for values in (wanted, found):
        values["subscriptions"] = sorted(cast(list[str], values["subscriptions"]))
    differing = [name for name in wanted if found[name] != wanted[name]]
    return [f"{name} is {_said(found[name])}, declared {_said(wanted[name])}" for name in differing]


def _said(value: object) -> str:
    return seen(value) if isinstance(value, bool) else repr(value)
