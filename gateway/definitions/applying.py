"""Make the changes of a plan, one object after the other.

The first refusal ends it: what follows may need the refused object. What was made stays, and the same document applied
again goes on from there. So does a document that takes longer than one request may: hashing ten thousand passwords
takes minutes.
"""

from collections.abc import Callable
from typing import Final

from sluicegate.actors.messages.data import StoreRefused
from sluicegate.gateway.definitions.document import ADD, SET, SETTINGS
from sluicegate.gateway.definitions.plan import OUTCOMES, Plan, Step
from sluicegate.gateway.operations.interface import NodeInterface
from sluicegate.gateway.views.definitions import DefinitionOutcome, DefinitionsView, DefinitionView
from sluicegate.gateway.views.errors import AlreadyExists, NotFound, Refused
from sluicegate.messaging.queues.definition import QueueInvalid

AFTER_REFUSAL: Final = "an object before it was refused; apply the document again to go on"
NOTHING_MADE: Final = "nothing is changed while objects of the document are refused"
OUT_OF_TIME: Final = "the time of one request was up; apply the document again to go on"


def as_planned(plan: Plan) -> DefinitionsView:
    """Return what would become of the objects: the answer to a dry run."""
    views = [
        step.view(DefinitionOutcome.REFUSED if step.refusal else OUTCOMES[step.change.action], step.refusal)
        for step in plan.steps
    ]
    return _view(plan, views, dry_run=True, made_count=0)


async def applied(
    node: NodeInterface, plan: Plan, *, has_time: Callable[[], bool], on_made: Callable[[Step], None]
) -> DefinitionsView:
    """Make the changes, and return what became of the objects. `on_made` is called after each change.

    Between two changes `has_time` is asked whether to go on. If the plan has refusals, nothing is changed.
    """
    views: list[DefinitionView] = []
    made_count = 0
    pending = NOTHING_MADE if plan.is_refused else ""
    for step in plan.steps:
        if step.refusal:
            views.append(step.view(DefinitionOutcome.REFUSED, step.refusal))
            continue
        if not pending and not has_time():
            pending = OUT_OF_TIME
        if pending:
            views.append(step.view(DefinitionOutcome.PENDING, pending))
            continue
        refusal = await _refusal_of(node, step)
        if refusal:
            pending = AFTER_REFUSAL
            views.append(step.view(DefinitionOutcome.REFUSED, refusal))
            continue
        made_count += 1
        on_made(step)
        views.append(step.view(OUTCOMES[step.change.action]))
    return _view(plan, views, dry_run=False, made_count=made_count, time_is_up=pending == OUT_OF_TIME)


def _view(
    plan: Plan, views: list[DefinitionView], *, dry_run: bool, made_count: int, time_is_up: bool = False
) -> DefinitionsView:
    return DefinitionsView(
        dry_run=dry_run,
        changes_count=len(plan.steps),
        made_count=made_count,
        time_is_up=time_is_up,
        objects=(*views, *plan.kept),
    )


async def _refusal_of(node: NodeInterface, step: Step) -> str:
    """Make one change; return why the node has refused it, empty if it has not."""
    change, kind = step.change, step.kind
    try:
        here = node if change.kind == SETTINGS else node.in_vpn(step.vpn)
        if change.action == ADD:
            await kind.add(here, {**change.fields, **step.secrets})
        elif change.action == SET:
            await kind.change(here, change.name, change.fields)
        else:
            await kind.remove(here, change.name)
    except (AlreadyExists, NotFound, QueueInvalid, Refused, StoreRefused) as refusal:
        return str(refusal)
    return ""
