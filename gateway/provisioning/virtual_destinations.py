"""Put the configured virtual destinations of a message VPN in force."""

import logging

from sluicegate.actors.messages.directory import DefineConsumerQueues, MakeNamedQueues
from sluicegate.actors.messages.router import DefineVirtualDestinations
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.gateway.config.sections.message_vpns import vpn_setting
from sluicegate.gateway.config.sections.virtual_destinations import VirtualDestinationsSection

log = logging.getLogger("sluicegate.node")


async def define_virtual_destinations(
    vpn: str, section: VirtualDestinationsSection, *, queues: ActorCell, router: ActorCell
) -> list[str]:
    """Put the definitions of a message VPN in force, and make the queues that they name. Return their warnings."""
    definitions = section.definitions()
    warnings = warning_texts(vpn, section)
    for text in warnings:
        log.warning("%s", text)
    await queues.ask(DefineConsumerQueues(definitions, section.create_consumer_queues))
    await queues.ask(MakeNamedQueues())
    await router.ask(DefineVirtualDestinations(definitions, section.selector_cache.rules()))
    return warnings


def warning_texts(vpn: str, section: VirtualDestinationsSection) -> list[str]:
    """Return what definitions of a message VPN are warned of, each with its place."""
    return [
        f"{vpn_setting(vpn, '.'.join(str(part) for part in ('virtual_destinations', *finding.place)))}: {finding.text}"
        for finding in section.warnings()
    ]
