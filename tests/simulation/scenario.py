"""What there is in a run: queues and clients. Some of it is drawn from the seed, so that runs mix a few things."""

from messaging.queue_attributes import DEAD_MESSAGE_QUEUE
from messaging.queue_config import QueueDefinition, definition_from_dict
from simulation.targets import DEAD, EXCLUSIVE, PARTITIONED, SHARED

# Name -> kind, prefixes of the topics it wants, attributes.
QUEUES: dict[str, tuple[str, tuple[str, ...], dict[str, object]]] = {
    "first": (EXCLUSIVE, ("work/a/",), {}),
    "even": (SHARED, ("work/b/",), {"access_type": "non-exclusive", "respect_ttl_enabled": True}),
    "keyed": (
        PARTITIONED,
        ("work/a/", "work/c/"),
        {
            "access_type": "non-exclusive",
            "partition_count": 4,
            "respect_ttl_enabled": True,
            "partition_rebalance_delay_s": 1,
            "partition_rebalance_max_handoff_time_s": 1,
        },
    ),
    "small": (EXCLUSIVE, ("work/d/",), {"max_msg_spool_usage": 1}),
    DEAD_MESSAGE_QUEUE: (DEAD, (), {}),
}
NAMES = tuple(QUEUES)
PUBLISHERS, CONSUMERS, SUBSCRIBERS = ("p0", "p1", "p2"), ("c0", "c1", "c2", "c3"), ("s0", "s1", "s2")
FLEETING = ("p2", "c2", "c3", "s2")  # whose sessions end with their connections


def definition_of(name: str) -> QueueDefinition:
    """Return how a queue is declared."""
    _, prefixes, attributes = QUEUES[name]
    subscriptions = [f"{prefix}>" for prefix in prefixes]
    return definition_from_dict({"name": name, "subscriptions": subscriptions, **attributes})


def queue_id(name: str) -> int:
    """Return the subscription identifier that consumers of a queue use."""
    return NAMES.index(name) + 1
