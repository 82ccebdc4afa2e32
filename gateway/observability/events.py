"""Set up a node's event log from the configuration: which events it publishes, and on which topics."""

from collections.abc import Callable

from sluicegate.actors.publishing.event_log import EventLog
from sluicegate.actors.queues.quota_events import KILOBYTE, exceedance, watch_credit, watch_node
from sluicegate.actors.runtime.events import Events
from sluicegate.actors.runtime.runtime import ActorCell, Runtime
from sluicegate.actors.runtime.supervision import RESTARTED
from sluicegate.gateway.config.model import Config
from sluicegate.messaging.message.address import Address
from sluicegate.messaging.message.thresholds import ThresholdPair
from sluicegate.messaging.observability.events import (
    CLIENT,
    MQTT_PREFIX,
    SMF_PREFIX,
    SYSTEM,
    SYSTEM_UNFINISHED_EXCEEDED,
    VPN,
)
from sluicegate.messaging.queues.admission import SpoolGate
from sluicegate.messaging.queues.credit import CreditPool
from sluicegate.messaging.routing.routes import TopicSpace
from sluicegate.protocols.transport.unfinished import UnfinishedBytes


def spawn_event_log(
    runtime: Runtime, config: Config, *, parent: ActorCell, spool: Address, space_of: Callable[[str], TopicSpace | None]
) -> ActorCell:
    """Start the event log, which publishes the events emitted from then on.

    `space_of` returns the topic space of a message VPN by name, None for one that was deleted.
    """
    cell = runtime.spawn(
        lambda cell: EventLog(
            cell,
            space_of=space_of,
            spool=spool,
            router_name=config.node.name,
            rng=runtime.rng,
            prefixes=_prefixes(config),
            scopes=_scopes(config),
        ),
        kind="events",
        name="events",
        policy=RESTARTED,
        parent=parent,
    )
    runtime.events.record.log = cell.inbox
    return cell


def watch_gates(
    events: Events, config: Config, spool_gate: SpoolGate, credit: CreditPool[Address], unfinished: UnfinishedBytes
) -> None:
    """Have the gates of the node emit events when they fill up."""
    watch_node(
        events,
        spool_gate,
        usage=ThresholdPair(config.spool.usage_threshold),
        messages=ThresholdPair(config.limits.messages_threshold),
    )
    watch_credit(events, credit, ThresholdPair(config.limits.delivered_unacked_threshold))
    unfinished.exceeded = exceedance(
        events, SYSTEM_UNFINISHED_EXCEEDED, "Unfinished bytes limit of all clients", "kB", KILOBYTE
    )


def reload_event_log(cell: ActorCell, config: Config) -> None:
    """Put a changed configuration in force."""
    actor = cell.actor
    assert isinstance(actor, EventLog)
    actor.prefixes = _prefixes(config)
    actor.scopes = _scopes(config)


def _prefixes(config: Config) -> tuple[str, ...]:
    events = config.events
    chosen = ((SMF_PREFIX, events.smf_topics), (MQTT_PREFIX, events.mqtt_topics))
    return tuple(prefix for prefix, wanted in chosen if wanted)


def _scopes(config: Config) -> tuple[str, ...]:
    events = config.events
    chosen = ((SYSTEM, events.publish_system), (VPN, events.publish_vpn), (CLIENT, events.publish_client))
    return tuple(scope for scope, wanted in chosen if wanted)
