"""A node's event log put together: which events it publishes, under which topics, from the configuration."""

from typing import TYPE_CHECKING

from sluicegate.actors.publishing.event_log import EventLog
from sluicegate.actors.queues.quota_events import KILOBYTE, exceedance, watch_credit, watch_node
from sluicegate.actors.runtime.runtime import ActorCell
from sluicegate.actors.runtime.supervision import RESTARTED
from sluicegate.gateway.config.model import Config
from sluicegate.messaging.message.thresholds import ThresholdPair
from sluicegate.messaging.observability.events import (
    CLIENT,
    MQTT_PREFIX,
    SMF_PREFIX,
    SYSTEM,
    SYSTEM_UNFINISHED_EXCEEDED,
    VPN,
)

if TYPE_CHECKING:
    from sluicegate.gateway.node.node import Node


def spawn_event_log(node: "Node") -> ActorCell:
    """Start the event log; from then on events that are emitted are carried out."""
    cell = node.runtime.spawn(
        lambda cell: EventLog(
            cell,
            space_of=lambda vpn: node.vpns[vpn].space,
            spool=node.spool.inbox,
            router_name=node.config.node.name,
            rng=node.runtime.rng,
            prefixes=_prefixes(node.config),
            scopes=_scopes(node.config),
        ),
        kind="events",
        name="events",
        policy=RESTARTED,
        parent=node.root,
    )
    node.runtime.events.record.log = cell.inbox
    return cell


def watch_gates(node: "Node") -> None:
    """Have the gates of the node tell when they fill up."""
    config, events = node.config, node.runtime.events
    watch_node(
        events,
        node.spool_gate,
        usage=ThresholdPair(config.spool.usage_threshold),
        messages=ThresholdPair(config.limits.messages_threshold),
    )
    watch_credit(events, node.credit, ThresholdPair(config.limits.delivered_unacked_threshold))
    node.unfinished.exceeded = exceedance(
        events, SYSTEM_UNFINISHED_EXCEEDED, "Unfinished bytes limit of all clients", "kB", KILOBYTE
    )


def reload_event_log(cell: ActorCell, config: Config) -> None:
    """Take over a changed configuration."""
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
