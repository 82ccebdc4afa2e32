"""The queues and clients of a run. Some are drawn from the seed, so that runs combine a few features each."""

from collections.abc import Mapping
from random import Random
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from simulation.judge.targets import DEAD, EXCLUSIVE, PARTITIONED, SHARED, Rules
from sluicegate.messaging.queues.definition import QueueDefinition, definition_from_dict
from sluicegate.messaging.topics.syntax import DEAD_MESSAGE_QUEUE, queue_topic

Attributes = dict[str, Any]


class Plan(NamedTuple):
    """A queue as it is declared."""

    kind: str
    prefixes: tuple[str, ...]  # of the topics it subscribes to
    attributes: Attributes


TEMPORARY: Final = "passing"  # the queue that is never written
SPARE: Final = "spare"  # where administrators move messages to
OF_A, OF_B, GATHER = "Consumer.A.work.v.x", "Consumer.B.work.v.x", "gather"  # get what definitions bring
HANDOFF_S: Final = 1  # a partition is given away that long after another consumer is to have it

QUEUES: Final[dict[str, Plan]] = {
    "first": Plan(EXCLUSIVE, ("work/a/",), {}),
    "even": Plan(SHARED, ("work/b/",), {"access_type": "non-exclusive", "respect_ttl_enabled": True}),
    "keyed": Plan(
        PARTITIONED,
        ("work/a/", "work/c/"),
        {
            "access_type": "non-exclusive",
            "partition_count": 4,
            "respect_ttl_enabled": True,
            "partition_rebalance_delay_s": 1,
            "partition_rebalance_max_handoff_time_s": HANDOFF_S,
        },
    ),
    "small": Plan(EXCLUSIVE, ("work/d/",), {"max_msg_spool_usage": 1}),
    TEMPORARY: Plan(EXCLUSIVE, ("work/c/",), {"expires_unbound_s": 30}),
    OF_A: Plan(EXCLUSIVE, (), {}),
    OF_B: Plan(
        PARTITIONED,
        (),
        {
            "access_type": "non-exclusive",
            "partition_count": 3,
            "partition_rebalance_delay_s": 1,
            "partition_rebalance_max_handoff_time_s": HANDOFF_S,
        },
    ),
    GATHER: Plan(SHARED, (), {"access_type": "non-exclusive"}),  # as the definition makes it, when it was deleted
    SPARE: Plan(DEAD, (), {}),
    DEAD_MESSAGE_QUEUE: Plan(DEAD, (), {}),
}
NAMES: Final = tuple(QUEUES)

# Queues that one broker of a network has, whichever; clients of all use them.
SOLE_QUEUES: Final[dict[str, Plan]] = {
    "desk": Plan(EXCLUSIVE, ("work/q/",), {}),
    "pool": Plan(SHARED, ("work/q/",), {"access_type": "non-exclusive", "respect_ttl_enabled": True}),
    "lanes": Plan(
        PARTITIONED,
        ("work/q/",),
        {
            "access_type": "non-exclusive",
            "partition_count": 3,
            "partition_rebalance_delay_s": 1,
            "partition_rebalance_max_handoff_time_s": HANDOFF_S,
        },
    ),
}

# In a network that forwards, each broker has these as well. Two get what is published at their own broker only: the
# virtual topic of one is local, and what another wants is told to no neighbor, and wanted there by nobody else. The
# third gets what a composite forwards besides, wherever that is published.
VIRTUAL_HERE, VIRTUAL_APART, FANNED_OUT = "work/n/", "apart/", "fan/"
NEAR, APART, FAN = "Consumer.A.work.n.x", "Consumer.A.apart.x", "fan"
NEAR_QUEUES: Final[dict[str, Plan]] = {
    NEAR: Plan(EXCLUSIVE, (), {}),
    APART: Plan(SHARED, (), {"access_type": "non-exclusive"}),
    FAN: Plan(EXCLUSIVE, (FANNED_OUT,), {}),
}
ALL_NAMES: Final = (*NAMES, *SOLE_QUEUES, *NEAR_QUEUES)

# What is published on a virtual topic goes into the queues of its consumers. What is published on a composite goes into
# a queue, and as a copy to a virtual topic: into three queues, two of them by two steps.
VIRTUAL, COMPOSITE = "work/v/", "work/w/"
COPIED_TO: Final = f"{VIRTUAL}x"
FORWARDS: Final[Attributes] = {
    "create_consumer_queues": False,
    "virtual_topics": [{"name": f"{VIRTUAL}>", "prefix": "Consumer.*."}],
    "composite_topics": [{"name": f"{COMPOSITE}>", "forward_to": [{"queue": GATHER}, {"topic": COPIED_TO}]}],
}
NEAR_FORWARDS: Final[Attributes] = FORWARDS | {
    "virtual_topics": [
        *FORWARDS["virtual_topics"],
        {"name": f"{VIRTUAL_HERE}>", "prefix": "Consumer.*.", "local": True},
        {"name": f"{VIRTUAL_APART}>", "prefix": "Consumer.*."},
    ],
    "composite_topics": [
        *FORWARDS["composite_topics"],
        {"name": f"{FANNED_OUT}>", "forward_to": [{"queue": GATHER}], "forward_only": False},
    ],
}
FORWARDED: Final = {
    OF_A: (VIRTUAL, COMPOSITE),
    OF_B: (VIRTUAL, COMPOSITE),
    GATHER: (COMPOSITE, FANNED_OUT),
    NEAR: (VIRTUAL_HERE,),
    APART: (VIRTUAL_APART,),
}
TAKES_NEAR_ONLY: Final = (GATHER, NEAR, APART)  # composites are the publisher's broker's

DELAY: Final[Attributes] = {"delivery_delay_s": 2}
BACK_OFF: Final[Attributes] = {"redelivery_delay_enabled": True, "redelivery_delay_initial_interval_ms": 1500}
LOCK: Final[Attributes] = {"consumer_ack_timeout_ms": 3000}
PRIORITY: Final[Attributes] = {"respect_msg_priority_enabled": True}
TTL: Final[Attributes] = {"respect_ttl_enabled": True, "max_ttl": 12}
AFTER_COMMIT: Final[Attributes] = {"deliver_after_commit": True}
RETENTION: Final[Attributes] = {"retention_time_s": 60}
LAST_VALUE: Final[Attributes] = {"max_msg_spool_usage": 0}
OPTIONS: Final[dict[str, tuple[Attributes, ...]]] = {
    "first": (DELAY, BACK_OFF, LOCK, PRIORITY, RETENTION, AFTER_COMMIT),
    "even": (DELAY, BACK_OFF, LOCK, PRIORITY, TTL, AFTER_COMMIT),
    "keyed": (DELAY, BACK_OFF, LOCK, TTL, RETENTION, AFTER_COMMIT),
    "small": (LAST_VALUE, TTL),
    "desk": (BACK_OFF, LOCK, AFTER_COMMIT),
    "pool": (BACK_OFF, LOCK, AFTER_COMMIT),
    "lanes": (BACK_OFF, LOCK, AFTER_COMMIT),
}
OPTION_SHARE, SPECIAL_SHARE = 0.2, 0.4  # of options that a seed takes; of seeds with such publishers
TRANSACTIONS_SHARE, SELECTORS_SHARE, RETAINED_SHARE, RETURNS_SHARE = 0.3, 0.25, 0.2, 0.3  # of seeds with such clients
WILLS_SHARE, RESUMES_SHARE, REQUESTS_SHARE, NEGOTIATES_SHARE = 0.25, 0.25, 0.3, 0.3  # the same
OVERLAPS_SHARE = 0.25  # the same
RELOADS_SHARE, PUSHES_SHARE, BROWSES_SHARE = 0.3, 0.3, 0.3  # of seeds with reloads, delivery points and browsers

# What consumers of queues ask for: some keys, or everything.
SELECTIONS: Final = ((), ("k0",), ("k0", "k1"), ("k2", "k3"))
SELECTION_IDS: Final = 20  # above the number of queues

PUBLISHERS, CONSUMERS, SUBSCRIBERS = ("p0", "p1", "p2"), ("c0", "c1", "c2", "c3"), ("s0", "s1", "s2")
TRANSACTORS = ("t0", "t1")
RETURNERS = {"f0": 3, "f1": 30}  # with their windows
RESUMERS = ("r0", "r1", "r2")
REQUESTERS = ("h0", "h1", "h2")
BROWSERS = ("b0", "b1")
MOVERS = ("p1", "s1")  # of a network: one client each, that connects to any of the brokers
FLEETING = ("p2", "c2", "c3", "s2")  # whose sessions end with their connections


class Scenario(NamedTuple):
    """What a seed chose."""

    queues: dict[str, Plan]
    delays: bool  # some messages are to be delivered later
    priorities: bool  # messages differ in priority
    jobs: bool  # there are some that publish by transactions
    forwards: bool  # there are virtual and composite destinations
    reader: str  # the queue that a durable cursor taps; empty: none
    transactions: bool  # clients consume and publish by AMQP transactions
    selects: bool  # some consumers of queues take some keys only
    retains: bool  # a publisher keeps a retained message up to date, and subscribers look at it
    returns: bool  # clients of the flow protocol publish under names, and consume
    wills: bool  # clients of MQTT leave wills, some of them retained
    resumes: bool  # clients of AMQP publish and consume over links that they attach again
    requests: bool  # clients of HTTP publish and consume, by connections that come and go
    negotiates: bool  # clients of MQTT take more or less at a time with each connection, and use topic aliases
    overlaps: bool  # sessions have a second subscription to some of their topics
    reloads: bool  # the configuration changes, and the node reads it again
    pushes: bool  # REST delivery points push the messages of some queues to web servers
    browses: bool  # clients of HTTP browse queues
    elsewhere: Mapping[str, Plan] = MappingProxyType({})  # queues of other brokers of a network, used from here

    @property
    def names(self) -> tuple[str, ...]:
        """The queues that there may be."""
        return tuple(self.queues)

    @property
    def consumed(self) -> tuple[str, ...]:
        """What consumers draw a queue from: in a network the same for all brokers."""
        sole = tuple(name for name in SOLE_QUEUES if name in self.queues or name in self.elsewhere)
        near = tuple(name for name in NEAR_QUEUES if name in self.queues)
        return NAMES + 2 * sole + near

    @property
    def virtual_destinations(self) -> Attributes:
        """What the configuration says of them."""
        if not self.forwards:
            return {}
        return NEAR_FORWARDS if NEAR in self.queues else FORWARDS

    def definition(self, name: str) -> QueueDefinition:
        """Return how a queue is declared."""
        plan = self.queues[name]
        subscriptions = [f"{prefix}>" for prefix in plan.prefixes]
        asked = {"name": name, "subscriptions": subscriptions, **plan.attributes}
        return definition_from_dict(asked, durable=name != TEMPORARY)

    def prefixes(self, name: str) -> tuple[str, ...]:
        """Return the prefixes of the topics whose messages a queue gets."""
        of_topics = self.queues[name].prefixes + (FORWARDED.get(name, ()) if self.forwards else ())
        return (*of_topics, queue_topic(name))

    def rules(self, name: str) -> Rules:
        """Return what the attributes of a queue promise, as far as time and order go."""
        plan = self.queues.get(name) or self.elsewhere[name]
        attributes = plan.attributes
        backs_off = "redelivery_delay_enabled" in attributes
        return Rules(
            is_temporary=name == TEMPORARY,
            is_near=name in TAKES_NEAR_ONLY,
            respects_expiry="respect_ttl_enabled" in attributes,
            ttl_s=attributes.get("max_ttl", 0),
            delay_s=attributes.get("delivery_delay_s", 0),
            back_off_ms=attributes["redelivery_delay_initial_interval_ms"] if backs_off else 0,
            lock_ms=attributes.get("consumer_ack_timeout_ms", 0),
            by_priority="respect_msg_priority_enabled" in attributes,
            last_value=attributes.get("max_msg_spool_usage") == 0,
            selects=self.selects,
        )


PLAIN: Final = Scenario(
    QUEUES,
    delays=False,
    priorities=False,
    jobs=False,
    forwards=False,
    reader="",
    transactions=False,
    selects=False,
    retains=False,
    returns=False,
    wills=False,
    resumes=False,
    requests=False,
    negotiates=False,
    overlaps=False,
    reloads=False,
    pushes=False,
    browses=False,
)


def scenario_of(seed: int) -> Scenario:
    """Return what a seed chooses."""
    rng = Random(f"scenario {seed}")
    queues = {}
    for name, plan in QUEUES.items():
        attributes = dict(plan.attributes)
        for option in OPTIONS.get(name, ()):
            if rng.random() < OPTION_SHARE:
                attributes |= option
        queues[name] = plan._replace(attributes=attributes)
    return Scenario(
        queues,
        delays=rng.random() < SPECIAL_SHARE,
        priorities=rng.random() < SPECIAL_SHARE,
        jobs=rng.random() < SPECIAL_SHARE,
        forwards=rng.random() < SPECIAL_SHARE,
        reader=rng.choice(("", "", "first", "keyed")),
        transactions=rng.random() < TRANSACTIONS_SHARE,
        selects=rng.random() < SELECTORS_SHARE,
        retains=rng.random() < RETAINED_SHARE,
        returns=rng.random() < RETURNS_SHARE,
        wills=rng.random() < WILLS_SHARE,
        resumes=rng.random() < RESUMES_SHARE,
        requests=rng.random() < REQUESTS_SHARE,
        negotiates=rng.random() < NEGOTIATES_SHARE,
        overlaps=rng.random() < OVERLAPS_SHARE,
        reloads=rng.random() < RELOADS_SHARE,
        pushes=rng.random() < PUSHES_SHARE,
        browses=rng.random() < BROWSES_SHARE,
    )


def topics_of(topic: str) -> tuple[str, ...]:
    """Return the topics on which a message may come that was published on this one."""
    return (topic, COPIED_TO) if topic.startswith(COMPOSITE) else (topic,)


def queue_id(name: str, selection: int = 0) -> int:
    """Return the subscription identifier of consumers of a queue that take one of the selections."""
    return ALL_NAMES.index(name) + 1 + selection * SELECTION_IDS


def keys_of(identifier: int) -> tuple[str, ...]:
    """Return the keys that consumers with this subscription identifier take; none: all."""
    selection = identifier // SELECTION_IDS
    return SELECTIONS[selection] if selection < len(SELECTIONS) else ()
