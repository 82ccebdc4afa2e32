"""How the broker's own queues are declared: those of MQTT sessions, and those of shared subscriptions."""

from typing import Final

from messaging.queue_attributes import EXCLUSIVE, NON_EXCLUSIVE
from messaging.queue_config import QueueConfig, QueueDefinition

# What one client that does not read may hold of messages that are never written. Its publishers are slowed down at the
# high mark; beyond the quota, once they no longer wait for it, messages are dropped for this client only.
TEMPORARY_SPOOL_MB: Final = 64
REJECT_NEVER: Final = "never"
MESSAGE_BYTES_MAX: Final = 30_000_000  # the most the attribute allows


def session_queue(name: str, durable: bool) -> QueueDefinition:
    """Return the definition of an MQTT session's queue. Message expiry counts there [MQTT 3.3.2-5]."""
    if durable:
        config = QueueConfig(name=name, access_type=EXCLUSIVE, respect_ttl_enabled=True, max_msg_size=MESSAGE_BYTES_MAX)
        return QueueDefinition(config)
    config = QueueConfig(
        name=name,
        access_type=EXCLUSIVE,
        respect_ttl_enabled=True,
        max_msg_size=MESSAGE_BYTES_MAX,
        max_msg_spool_usage=TEMPORARY_SPOOL_MB,
        max_delivered_unacked_msgs_per_flow=65_535,
        reject_msg_to_sender_on_discard_behavior=REJECT_NEVER,
    )
    return QueueDefinition(config)


def group_queue(name: str, durable: bool) -> QueueDefinition:
    """Return the definition of a shared subscription's queue."""
    if durable:
        return QueueDefinition(
            QueueConfig(name=name, access_type=NON_EXCLUSIVE, respect_ttl_enabled=True, max_msg_size=MESSAGE_BYTES_MAX)
        )
    config = QueueConfig(
        name=name,
        access_type=NON_EXCLUSIVE,
        respect_ttl_enabled=True,
        max_msg_size=MESSAGE_BYTES_MAX,
        max_msg_spool_usage=TEMPORARY_SPOOL_MB,
        reject_msg_to_sender_on_discard_behavior=REJECT_NEVER,
    )
    return QueueDefinition(config)
