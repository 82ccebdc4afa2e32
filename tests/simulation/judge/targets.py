"""The judge's records of a run: messages, queues and sessions, and what consumers received from them."""

from dataclasses import dataclass, field
from typing import Protocol


class Violation(Exception):
    """The node broke a promise."""


EXCLUSIVE = "exclusive"
SHARED = "shared"
PARTITIONED = "partitioned"
SESSION = "session"
GROUP = "group"  # a shared subscription: each message goes to one of its members
DEAD = "dead"  # a dead message queue, or one for what is moved: it wants nothing, and gets what others give up

QUEUE_KINDS = (EXCLUSIVE, SHARED, PARTITIONED)

RETAINED = "state/x"  # the topic of retained messages, which no queue wants

NOT_YET = 1 << 60  # a tick that never comes


@dataclass(frozen=True, slots=True)
class Rules:
    """What a queue promises as to time and order. Sessions expire messages, and promise nothing else of it."""

    is_temporary: bool = False
    is_near: bool = False  # of a network, it gets only what is published at its own broker
    respects_expiry: bool = False
    ttl_s: int = 0  # after which a message expires, whatever its publisher said; 0: never
    delay_s: int = 0  # before which nothing is delivered
    back_off_ms: int = 0  # before which what failed is not delivered again
    lock_ms: int = 0  # after which what is not settled has failed; 0: never
    by_priority: bool = False
    last_value: bool = False  # it keeps its newest message only
    selects: bool = False  # some of its consumers take some keys only, and leave what is between


@dataclass(eq=False)
class Message:
    """One message of one publisher."""

    number: int
    publisher: str
    key: str
    topic: str
    qos: int
    sent_tick: int
    crashes_when_sent: int
    sent_us: int = 0
    expiry_s: int = 0  # 0: it does not expire
    delay_s: int = 0  # not to be delivered before
    priority: int = 4
    withheld: bool = False  # staged, and not to be seen by anybody
    is_transacted: bool = False  # a transaction publishes it: it crosses no link before the store has it
    is_known: bool = False  # sent again it is the same message: the node has it once
    sent_count: int = 1
    unmarked_count: int = 1  # times it was sent, and the node cannot tell that it may have come before
    promised_tick: int = 0  # the node wrote that it has it
    promised_us: int = 0  # when that was
    promised_to_nobody: bool = False  # with the code that says that nobody is subscribed
    refused: bool = False
    broker: str = ""  # that its publisher is at, in a network
    arrived_tick: dict[str, int] = field(default_factory=dict)  # when other brokers had it in their store
    is_undone: bool = False  # its broker is an older one since, from a backup, and may not have it
    session_lost: bool = False  # the publisher started anew without hearing what became of it

    def __repr__(self) -> str:
        return f"message {self.number} ({self.publisher}, key {self.key!r}, QoS {self.qos}, {self.topic})"


@dataclass(eq=False)
class Seen:
    """What consumers of one target saw of one message."""

    count: int = 0
    fresh_count: int = 0  # deliveries that were not flagged as redelivered
    settled_tick: int = 0
    was_rejected: bool = False  # by the first settlement of who had it, of those since it was last delivered
    is_answered: bool = False  # perhaps, whatever who has it says now: by what it said of the delivery before
    answered_us: int = -1  # when who had it last settled it
    answered_tick: int = 0  # when that first settlement was read
    settled_crashes: int = 0  # crashes of the node by then
    settled_for_good: int = -1  # number of crashes at the time, if nothing can have voided the settlement
    is_committed: bool = False  # a transaction has settled it, and that was confirmed
    holder: "Holder | None" = None  # connection it was last written to
    held_us: int = 0  # when its consumer may have been given it
    held_life: int = 0  # of the node by then
    held_cuts: int = 0  # flow cuts of the target by then
    is_returned: bool = False  # who had it has given it back, or says that it failed
    crashes: int = 0
    first_crashes: int = 0  # of the node, when it came for the first time
    count_known: int = 0  # deliveries since the node may last have forgotten them
    forgotten: tuple[int, int] = (0, 0)  # crashes of the node, and when the target last forgot its counts, by then
    member: str = ""  # of the shared subscription: who was sent it at QoS 2, and nobody else gets it
    sent_once: bool = False  # to a member at QoS 2, whatever it has asked for since
    given_back: bool = False  # by a member that has left; it may have had the message all the same
    new_count: int = 0  # of QoS 2: under a packet id that was not in use

    def is_unsettled(self) -> bool:
        """Return whether who has it now has not settled it. What is said late of an earlier delivery does not count."""
        return self.settled_tick == 0 or self.answered_us < self.held_us

    def returns(self, holder: "Holder", *, is_untouched: bool) -> None:
        """Its consumer gives it back; untouched, as if it had not been delivered: nothing is counted or waited for."""
        if self.holder is holder:
            self.is_returned = True
            if is_untouched:
                self.count_known = max(0, self.count_known - 1)
                self.held_us = 0

    def extends(self, holder: "Holder", now_us: int) -> None:
        """Its consumer holds on to it, from now on for the whole time that it may take."""
        if self.holder is holder:
            self.held_us = now_us


class Holder(Protocol):
    """A connection, as far as it has messages in flight."""

    @property
    def has_let_go(self) -> bool:
        """Return whether it may have ended, or its flow may have."""


@dataclass(eq=False)
class Target:
    """A queue between its creation and its end, or a session's subscription."""

    name: str
    kind: str
    prefixes: tuple[str, ...]  # of topics it wants
    since_tick: int
    rules: Rules
    broker: str = ""  # that it is at, in a network
    known_tick: dict[str, int] = field(default_factory=dict)  # by other broker: since when it knows what this wants
    until_tick: int = 0  # 0: it is still there
    may_give_up: bool = False  # it had a limit of redeliveries at some time
    tries_max: int = 0  # the highest count that a delivery may show; 0: at some time there was no limit
    was_configured: bool = False
    outages: list[list[int]] = field(default_factory=list)  # [from, until or 0]: takes nothing
    purges: list[list[int]] = field(default_factory=list)  # [from, until or 0]
    moves: list[list[int]] = field(default_factory=list)  # the same: messages are, or were, moved to another queue
    seen: dict[int, Seen] = field(default_factory=dict)
    lines: dict[str, list[Message]] = field(default_factory=dict)  # by what has an order: promised and not settled
    highest: dict[str, int] = field(default_factory=dict)  # by the same: the last one that came for the first time
    damaged: set[int] = field(default_factory=set)
    declined: set[int] = field(default_factory=set)  # a consumer wants it to go to others: where there are none it dies
    forsaken: set[int] = field(default_factory=set)  # may have waited for a member whose session has ended
    flow_cuts: int = 0  # how often its flows were, or may have been, ended by an administrator or a failure
    hung_up_tick: int = 0  # when the node last lost a connection of one of its consumers
    is_broken: bool = False  # a partition may have failed too often, and may yet be read back from the store
    forgot_tick: int = 0  # when it may last have forgotten how often its messages were tried
    touched_us: int = 0  # when it was last certain to exist, or had a consumer
    unordered_until: int = 0  # what was sent before this tick has no order here: without partitions, or come unseen

    def wants(self, message: Message) -> bool:
        """Return whether it is subscribed to the message's topic, and takes it from where it was published."""
        if self.rules.is_near and self.is_remote(message):
            return False
        return self.kind == DEAD or message.topic.startswith(self.prefixes)

    def was_emptied_since(self, tick: int) -> bool:
        """Return whether it may have been purged of what was there then."""
        return any(end == 0 or end > tick for _, end in self.purges)

    def was_moved_since(self, tick: int) -> bool:
        """Return whether an administrator may have moved what was there then."""
        return any(end == 0 or end > tick for _, end in self.moves)

    def has_dead_message_queue(self) -> bool:
        """Return whether what it gives up goes to the dead message queue."""
        return self.kind not in (SESSION, GROUP, DEAD) and not self.rules.is_temporary

    def takes_since(self, tick: int) -> bool:
        """Return whether it was there, took everything, and kept it, ever since."""
        is_out = any(end == 0 or end > tick for _, end in self.outages)
        return self.since_tick < tick and not is_out and not self.was_emptied_since(tick)

    def line_of(self, message: Message) -> str | None:
        """Return what the message is in order with; None: nothing. Who is delayed is overtaken.

        Over a link direct and guaranteed messages are in no order, nor are those of a group with members elsewhere.
        """
        line = self._line_here(message)
        if line is None or not self.is_remote(message):
            return line
        return None if self.kind == GROUP else f"{line} {message.qos > 0}"

    def is_remote(self, message: Message) -> bool:
        """Return whether it was published at another broker."""
        return message.broker != self.broker

    def _line_here(self, message: Message) -> str | None:
        rules = self.rules
        if self.kind == DEAD or message.delay_s or (self.kind == SHARED and rules.by_priority):
            return None
        if self.kind == GROUP and message.qos == 0:
            return None  # it goes to a member without a queue between
        if self.kind == SESSION:
            return f"{message.publisher} {message.topic} {message.qos}"  # [MQTT 4.6.0]: for the same topic and QoS
        if rules.by_priority:  # where a message that failed and waits holds nobody up
            if rules.back_off_ms:
                return None
            return f"{message.publisher} {message.priority}" + (f" {message.key}" if rules.selects else "")
        has_keys = self.kind in (PARTITIONED, SHARED, GROUP) or rules.selects  # SHARED and GROUP have message groups
        is_by_key = has_keys or rules.back_off_ms > 0
        return f"{message.publisher} {message.key}" if is_by_key else message.publisher

    def expiry_s(self, message: Message) -> int:
        """Return after how many seconds the message expires here; 0: never."""
        if not self.rules.respects_expiry:
            return 0
        return min([each for each in (message.expiry_s, self.rules.ttl_s) if each > 0], default=0)

    def owes(self, message: Message) -> bool:
        """Return whether it had to take the message that was confirmed."""
        if self.kind == DEAD or message.qos == 0 or message.promised_tick == 0 or not self.wants(message):
            return False
        if self.is_remote(message) and not self._is_owed_by_link(message):
            return False
        if self.since_tick > message.sent_tick or 0 < self.until_tick < message.promised_tick:
            return False
        return not any(
            begin <= message.promised_tick and (end == 0 or message.sent_tick <= end) for begin, end in self.outages
        )

    def _is_owed_by_link(self, message: Message) -> bool:
        """Return whether a message of another broker has to come: one that expires may do so on its way.

        It was confirmed by that one, and this target may take nothing when it arrives.
        """
        if (
            self.kind == GROUP
            or message.expiry_s
            or not self.known_tick.get(message.broker, NOT_YET) < message.sent_tick
        ):
            return False
        arrived_tick = message.arrived_tick.get(self.broker, NOT_YET)
        return not self.until_tick and not any(
            begin <= arrived_tick and (end == 0 or end > message.sent_tick) for begin, end in self.outages
        )

    def gets_for_sure(self, message: Message) -> bool:
        """Return whether the message, if its publish was taken, has come into it and from there to a consumer."""
        if self.rules.is_temporary or self.until_tick or not self.wants(message):
            return False
        if self.is_remote(message) and not self._is_owed_by_link(message):
            return False
        stays = not (self.expiry_s(message) or self.was_moved_since(message.sent_tick) or self.may_have_lost(message))
        return stays and self.takes_since(message.sent_tick)

    def may_have_given_up(self, message: Message) -> bool:
        """Return whether it may have ended its attempts to deliver the message."""
        is_limited = self.may_give_up or self.expiry_s(message) > 0 or self.was_moved_since(message.sent_tick)
        return is_limited or message.number in self.declined or self.may_have_lost(message)

    def may_have_back(self, refused_tick: int, later: Message) -> bool:
        """Return whether what stood before a message, which the store may have refused, may be in its place again."""
        return self.rules.last_value and not later.promised_tick and refused_tick > later.sent_tick

    def may_have_lost(self, message: Message) -> bool:
        """Return whether the message may be gone for a reason that no dead message queue hears of."""
        is_lost = message.is_undone or message.number in self.damaged or message.number in self.forsaken
        return self.rules.last_value or is_lost or self.was_emptied_since(message.sent_tick)
