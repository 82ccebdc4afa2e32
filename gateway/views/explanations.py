"""What `explain` answers: frozen values, shared by the admin API, the command line and the tests."""

from dataclasses import dataclass

from sluicegate.messaging.partitions.wait_reason import WaitReason


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckView:
    """One check of a gate. It refuses when usage and what the message adds are more than the limit."""

    check: str  # as in the counters of refused messages
    usage: int
    adds: int
    limit: int | None  # None: no limit
    unit: str  # bytes, messages, or empty
    refused: bool
    publisher_hears: bool  # else the message is only dropped for this queue
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationView:
    """One queue, client or shared group that the topic leads to, or a topic to which nothing of it is sent on."""

    kind: str  # queue, client, shared-group or topic
    name: str
    filter: str  # the subscription that matches, or by which definitions it gets there; empty for one sent to a queue
    verdict: str  # spooled, delivered, refused, dropped, kept-out, not-selected or not-its-turn
    reason: str = ""
    exception: str | None = None  # of the queue, that keeps the message out
    queue: str | None = None  # where it would be spooled
    partition: int | None = None
    partition_reason: str = ""
    checks: tuple[CheckView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishExplanation:
    """What would become of a message that is published now."""

    topic: str
    key: str | None
    size_bytes: int
    qos: int
    verdict: str  # accepted, refused or dropped
    reason: str
    retained_now: bool  # there is a retained message on the topic
    publisher: str = ""  # whose rights were asked, in words; empty: nobody's
    destinations: tuple[DestinationView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyExplanation:
    """Where a partition key stands in a queue."""

    queue: str
    key: str
    key_hash: int
    partition: int
    partition_status: str
    assignment_epoch: int
    flow_id: str | None  # the partition's owner, while it has one
    client: str | None
    waiting_count: int  # messages of the key that are with no consumer
    in_flight_count: int
    first_waiting: str | None  # `partition:sequence` of the oldest that waits
    reason: WaitReason
    unseen_count: int  # messages of the partition that lie on disk and were not looked at
