"""List, set and delete the durable selectors of virtual topics."""

from collections.abc import Sequence

from sluicegate.actors.messages.router import ListSelectors, PutSelector, SelectorOverview
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.views.errors import QueueNotFound, SelectorNotFound
from sluicegate.gateway.views.queues import DurableSelectorView
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.messaging.selectors.durable import SELECTORS_OF_ONE_MAX
from sluicegate.messaging.selectors.lexer import SelectorError


async def selector_views(vpn: MessageVpn) -> list[DurableSelectorView]:
    """Return the durable selectors."""
    known: list[SelectorOverview] = await vpn.router.ask(ListSelectors())
    return [
        DurableSelectorView(
            queue=each.queue, subscriber=each.subscriber, selectors=tuple(each.selectors), seen_ms=each.seen_ms
        )
        for each in known
    ]


async def put_selector(vpn: MessageVpn, queue: str, subscriber: str, selectors: Sequence[str]) -> None:
    """Set the selectors of a subscriber. Raises QueueNotFound, QueueInvalid."""
    if not 1 <= len(selectors) <= SELECTORS_OF_ONE_MAX:
        raise QueueInvalid("selectors", f"{len(selectors)} of them", f"1 to {SELECTORS_OF_ONE_MAX}")
    for text in selectors:
        try:
            if text:
                vpn.selectors.compile(text)
        except SelectorError as problem:
            raise QueueInvalid("selectors", str(problem), "a JMS selector, or an empty text for everything") from None
    if not await vpn.router.ask(PutSelector(queue, subscriber, list(selectors))):
        raise QueueNotFound(queue)


async def delete_selector(vpn: MessageVpn, queue: str, subscriber: str) -> None:
    """Delete the selectors of a subscriber. Raises SelectorNotFound."""
    if not await vpn.router.ask(PutSelector(queue, subscriber, None)):
        raise SelectorNotFound(queue, subscriber)
