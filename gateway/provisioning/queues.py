"""What a configuration declares in a message VPN, and the definitions of the broker's own queues.

A declared queue or template is created at the start or by a reload; one that exists is left as it is. Virtual
destinations name queues, and are put in force after them.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, cast

from sluicegate.actors.messages.data import StoreRefused
from sluicegate.actors.messages.directory import (
    LINK,
    NAMED,
    SESSION,
    SHARED,
    CreateQueue,
    DefineConsumerQueues,
    FindQueue,
    LocalQueue,
    MakeNamedQueues,
    PutTemplate,
    QueueExists,
    TemplateExists,
    UpdateRefused,
)
from sluicegate.actors.messages.router import DefineVirtualDestinations
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.gateway.config.sections.message_vpns.message_vpns import vpn_setting
from sluicegate.gateway.config.sections.message_vpns.virtual_destinations import VirtualDestinationsSection
from sluicegate.gateway.config.sections.node import Queues
from sluicegate.messaging.queues.attributes import EXCLUSIVE, NO_ACCESS, NON_EXCLUSIVE, REJECT_ALWAYS, quoted
from sluicegate.messaging.queues.definition import MEGABYTE, QueueConfig, QueueDefinition
from sluicegate.protocols.amqp.registry import SubscriptionQueue
from sluicegate.protocols.network.guaranteed.link_queue import WINDOW

log = logging.getLogger("sluicegate.node")


async def declare_queues(queues: ActorCell, config: Queues) -> list[str]:
    """Create the configured templates and queues that do not exist. Return the warnings."""
    warnings = []
    for what, message in _requests(config):  # each ask lets others have a turn
        is_lost = isinstance(message, CreateQueue) and await _has_lost_definition(queues, message.definition)
        try:
            await queues.ask(message)
        except (TemplateExists, QueueExists):
            continue  # an existing one is left as it is
        except UpdateRefused as refusal:  # it would change the partition count while partitions are read
            warnings.append(f"{what} cannot restore its lost definition: {refusal}")
            log.warning("%s", warnings[-1])
        except StoreRefused as refusal:  # a node with a full store must start, to be emptied
            warnings.append(f"{what} was not created as declared: {refusal}")
            log.warning("%s", warnings[-1])
        else:
            log.info("%s %s", what, "had lost its definition; now as declared" if is_lost else "created as declared")
    return warnings + await _not_as_declared(queues, config)


def _requests(config: Queues) -> Iterator[tuple[str, PutTemplate | CreateQueue]]:
    for template in config.templates:
        yield f"queue template {template.name!r}", PutTemplate(template, must_be_new=True)
    for declared in config.declared:
        request = CreateQueue(declared, NAMED, durable=True, gives_back=True)
        yield f"queue {declared.config.name!r}", request


async def _has_lost_definition(queues: ActorCell, declared: QueueDefinition) -> bool:
    found: LocalQueue | None = await queues.ask(FindQueue(declared.config.name))
    return found is not None and found.definition_lost


async def _not_as_declared(queues: ActorCell, config: Queues) -> list[str]:
    """Return how existing queues differ from their declarations: an operator who changed one may expect an effect."""
    told = []
    for declared in config.declared:
        handle: LocalQueue | None = await queues.ask(FindQueue(declared.config.name))
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
    return quoted(value) if isinstance(value, bool) else repr(value)


# --- virtual destinations ---


async def define_virtual_destinations(
    vpn: str,
    section: VirtualDestinationsSection,
    *,
    queues: ActorCell,
    router: ActorCell,
    is_home: Callable[[str], bool],
) -> list[str]:
    """Put the definitions of a message VPN in force, and make the queues that they name. Return their warnings.

    `is_home` returns whether a queue is made here, and not at another broker of this machine.
    """
    definitions = section.definitions()
    warnings = _virtual_destination_warnings(vpn, section)
    for text in warnings:
        log.warning("%s", text)
    await queues.ask(DefineConsumerQueues(definitions, section.create_consumer_queues, is_home))
    await queues.ask(MakeNamedQueues())
    await router.ask(DefineVirtualDestinations(definitions, section.selector_cache.rules()))
    return warnings


def _virtual_destination_warnings(vpn: str, section: VirtualDestinationsSection) -> list[str]:
    """Return what definitions of a message VPN are warned of, each with its place."""
    return [
        f"{vpn_setting(vpn, '.'.join(str(part) for part in ('virtual_destinations', *finding.place)))}: {finding.text}"
        for finding in section.warnings()
    ]


# --- definitions of the broker's own queues: MQTT sessions, shared subscriptions, AMQP subscriptions ---


# Quota of a temporary queue, whose messages are never written: what one client that does not read may hold. At the high
# mark its publishers are slowed down; beyond the quota, once they no longer wait, messages for this client are dropped.
TEMPORARY_SPOOL_MB: Final = 64
REJECT_NEVER: Final = "never"
LINK_PREFIX: Final = "#link/"  # of the names of links' queues; the neighbor's name follows
MESSAGE_BYTES_MAX: Final = 30_000_000  # the most the attribute allows


def session_queue(name: str, durable: bool) -> QueueDefinition:
    """Return the definition of an MQTT session's queue."""
    if durable:
        return QueueDefinition(_config(name, EXCLUSIVE))
    return QueueDefinition(replace(_temporary(name, EXCLUSIVE), max_delivered_unacked_msgs_per_flow=65_535))


def group_queue(name: str, durable: bool, partition_count: int) -> QueueDefinition:
    """Return the definition of a shared subscription's queue."""
    config = _config(name, NON_EXCLUSIVE) if durable else _temporary(name, NON_EXCLUSIVE)
    return QueueDefinition(replace(config, partition_count=partition_count))


def link_queue(neighbor: str, quota_bytes: int, *, refuses: bool = True) -> QueueDefinition:
    """Return the definition of the queue of a link: one order, and nothing in it that could change the order.

    `refuses`: its publisher is told when it is full; else the copy for this neighbor is dropped and counted.
    """
    quota_mb = max(1, min(quota_bytes // MEGABYTE, 6_000_000))  # what the attribute allows
    config = replace(
        _config(LINK_PREFIX + neighbor, EXCLUSIVE),
        max_msg_spool_usage=quota_mb,
        max_delivered_unacked_msgs_per_flow=WINDOW,  # the sender's own window is the limit
        respect_dmq_eligible_enabled=True,
        reject_msg_to_sender_on_discard_behavior=REJECT_ALWAYS if refuses else REJECT_NEVER,
    )
    return QueueDefinition(config)


def own_queue(kind: str, name: str, partition_count: int) -> QueueDefinition | None:
    """Return the definition of a durable queue of the broker's own; None if only its client knows the definition."""
    if kind == SESSION:
        return session_queue(name, True)
    if kind == LINK:
        return link_queue(name.removeprefix(LINK_PREFIX), QueueConfig(name).max_msg_spool_usage * MEGABYTE)
    return group_queue(name, True, partition_count) if kind == SHARED else None


def subscription_queue(wanted: SubscriptionQueue) -> QueueDefinition:
    """Return the definition of the queue behind an AMQP subscription to a topic."""
    access_type = NON_EXCLUSIVE if wanted.is_shared else EXCLUSIVE
    config = _config(wanted.name, access_type) if wanted.durable else _temporary(wanted.name, access_type)
    if wanted.user:
        config = replace(config, owner=wanted.user, permission=NO_ACCESS)
    config = replace(config, expires_unbound_s=wanted.expires_s, partition_count=wanted.partition_count)
    return QueueDefinition(config, (wanted.topic,), wanted.selector)


def _config(name: str, access_type: str) -> QueueConfig:
    """Return the attributes that these queues share: they respect message expiry [MQTT 3.3.2-5]."""
    return QueueConfig(name=name, access_type=access_type, respect_ttl_enabled=True, max_msg_size=MESSAGE_BYTES_MAX)


def _temporary(name: str, access_type: str) -> QueueConfig:
    return replace(
        _config(name, access_type),
        max_msg_spool_usage=TEMPORARY_SPOOL_MB,
        reject_msg_to_sender_on_discard_behavior=REJECT_NEVER,
    )
