"""How the broker's own queues are declared: of MQTT sessions, shared subscriptions, AMQP subscriptions."""

from dataclasses import replace
from typing import Final

from sluicegate.actors.queues.assembly import SESSION, SHARED
from sluicegate.messaging.queues.attributes import EXCLUSIVE, NO_ACCESS, NON_EXCLUSIVE
from sluicegate.messaging.queues.definition import QueueConfig, QueueDefinition
from sluicegate.protocols.amqp.links.subscriptions import SubscriptionQueue

# What one client that does not read may hold of messages that are never written. Its publishers are slowed down at the
# high mark; beyond the quota, once they no longer wait for it, messages are dropped for this client only.
TEMPORARY_SPOOL_MB: Final = 64
REJECT_NEVER: Final = "never"
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


def own_queue(kind: str, name: str, partition_count: int) -> QueueDefinition | None:
    """Return the definition of a durable queue of the broker's own, None where its client alone knows what it is."""
    if kind == SESSION:
        return session_queue(name, True)
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
    """Return what all of them have in common: message expiry counts there [MQTT 3.3.2-5]."""
    return QueueConfig(name=name, access_type=access_type, respect_ttl_enabled=True, max_msg_size=MESSAGE_BYTES_MAX)


def _temporary(name: str, access_type: str) -> QueueConfig:
    return replace(
        _config(name, access_type),
        max_msg_spool_usage=TEMPORARY_SPOOL_MB,
        reject_msg_to_sender_on_discard_behavior=REJECT_NEVER,
    )
