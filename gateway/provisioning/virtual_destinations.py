"""The virtual destinations of a message VPN, as its configuration has them: told to those who keep to them."""

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sluicegate.actors.messages.router import DefineVirtualDestinations, ListSelectors, PutSelector, SelectorOverview
from sluicegate.actors.queues.requests import DefineConsumerQueues, MakeNamedQueues
from sluicegate.gateway.config.document import ConfigError
from sluicegate.gateway.config.sections.message_vpns import vpn_setting
from sluicegate.gateway.config.sections.virtual_destinations import VirtualDestinationsSection
from sluicegate.gateway.views.errors import QueueNotFound, Refused, SelectorNotFound
from sluicegate.gateway.views.queues import DurableSelectorView, ReloadView
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.messaging.selectors.durable import SELECTORS_OF_ONE_MAX
from sluicegate.messaging.selectors.lexer import SelectorError

if TYPE_CHECKING:
    from sluicegate.gateway.node.node import Node
    from sluicegate.gateway.node.vpn import MessageVpn

log = logging.getLogger("sluicegate.node")


async def define_virtual_destinations(vpn: "MessageVpn") -> list[str]:
    """Put the definitions of a configuration in force, and make the queues that they name. Return their warnings."""
    section = vpn.config.virtual_destinations
    definitions = section.definitions()
    warnings = warning_texts(vpn.name, section)
    for text in warnings:
        log.warning("%s", text)
    await vpn.queues.ask(DefineConsumerQueues(definitions, section.create_consumer_queues))
    await vpn.queues.ask(MakeNamedQueues())
    await vpn.router.ask(DefineVirtualDestinations(definitions, section.selector_cache.rules()))
    return warnings


def warning_texts(vpn: str, section: VirtualDestinationsSection) -> list[str]:
    """Return what definitions of a message VPN are warned of, each with its place."""
    return [
        f"{vpn_setting(vpn, '.'.join(str(part) for part in ('virtual_destinations', *finding.place)))}: {finding.text}"
        for finding in section.warnings()
    ]


async def reload_configuration(node: "Node") -> ReloadView:
    """Read the configuration again, from where the node was started with it. Raises Refused.

    It goes on to its end though nobody waits for it any more: to make thousands of queues takes longer than an answer.
    """
    if node.configuration is None:
        raise Refused("this node was not started with a configuration that can be read again")
    try:
        reloading = asyncio.create_task(node.reload(node.configuration()))
        node.runtime.keep(reloading)
        changes = await asyncio.shield(reloading)
    except ConfigError as problem:
        raise Refused(f"the configuration is wrong: {problem}") from None
    except (OSError, ValueError) as problem:  # as Node.reload says
        raise Refused(f"a file that the configuration names cannot be used: {problem}") from None
    return ReloadView(
        taken_over=tuple(str(change) for change in changes.reloadable),
        restart_needed=tuple(str(change) for change in changes.restart_needed),
        warnings=tuple(text for vpn in node.vpns.values() for text in vpn.warnings),
    )


async def selector_views(vpn: "MessageVpn") -> list[DurableSelectorView]:
    """Return the durable selectors."""
    known: list[SelectorOverview] = await vpn.router.ask(ListSelectors())
    return [
        DurableSelectorView(
            queue=each.queue, subscriber=each.subscriber, selectors=tuple(each.selectors), seen_ms=each.seen_ms
        )
        for each in known
    ]


async def put_selector(vpn: "MessageVpn", queue: str, subscriber: str, selectors: Sequence[str]) -> None:
    """Set what a subscriber selects. Raises QueueNotFound, QueueInvalid."""
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


async def delete_selector(vpn: "MessageVpn", queue: str, subscriber: str) -> None:
    """Forget what a subscriber selects. Raises SelectorNotFound."""
    if not await vpn.router.ask(PutSelector(queue, subscriber, None)):
        raise SelectorNotFound(queue, subscriber)
