"""Queues that move to another broker of the network, as the directory knows them: what is stored, and what is refused.

See also: who drives a move, and the brokers' agreement (protocols.network.moves).
"""

from typing import Final

from sluicegate.actors.messages.directory import LocalQueue, UpdateRefused
from sluicegate.actors.messages.queues import Reconfigure, SetMoving
from sluicegate.actors.queues.assembly import QueueServices
from sluicegate.messaging.queues.moves import COMMITTING, MOVING, QueueMove

# Their positions are sequences and an incarnation of this broker, and the new home numbers its messages anew.
KEPT_STAY: Final = "which cannot move: --drop-kept deletes the kept messages and the cursors"


def check_may_move(services: QueueServices, handle: LocalQueue, *, kind: str, drops_kept: bool) -> None:
    """Raise UpdateRefused, with the reason, for a queue that cannot move to another broker.

    `kind` is that of the queue that is meant: an operator means a named one.
    """
    core, name = services.cores[handle.name], handle.name
    reasons = (
        (handle.kind != kind, f"{name!r} is the broker's own: only queues of clients move"),
        (not handle.durable, f"{name!r} is temporary: only durable queues move"),
        (handle.definition_lost, f"the definition of {name!r} was lost: decide about it first"),
        (core.rescale is not None, f"the number of partitions of {name!r} is changing: try again later"),
        (not drops_kept and core.retention.on(), f"{name!r} keeps messages for readers, {KEPT_STAY}"),
        (not drops_kept and bool(services.cursors.of(name)), f"{name!r} has durable cursors, {KEPT_STAY}"),
    )
    for applies, text in reasons:
        if applies:
            raise UpdateRefused(text)


def put_in_force(services: QueueServices, handle: LocalQueue, move: QueueMove | None) -> None:
    """Have a queue take part in a move, or no longer."""
    text = "" if move is None else move.refusal(handle.name)
    if text != services.cores[handle.name].moving:
        handle.cell.inbox.post(SetMoving(text))
    if move is None or move.stage == MOVING:
        config = handle.definition.config
        # At once: what has waited for it may come now.
        handle.target.gate.set_ingress_of_move(enabled=None, configured=config.ingress_enabled)
        handle.cell.inbox.post(Reconfigure(config))


def shut_for_commit(handle: LocalQueue) -> bool:
    """Let nothing into a queue any more, if it has no messages; return whether that is so.

    It is empty and shut in one step: nobody publishes in between.
    """
    gate = handle.target.gate
    if gate.usage_count > 0:
        return False
    gate.set_ingress_of_move(enabled=False)
    return True


def is_shut(move: QueueMove | None) -> bool:
    """Return whether a queue that a start has found takes nothing: another broker may be its home."""
    return move is not None and move.stage == COMMITTING
