"""What a load is: a typed value that crosses to the worker processes, and the report that comes back."""

from dataclasses import dataclass

from bench import mqtt_wire as wire

MQTT = "mqtt"
AMQP = "amqp"
FLOW = "flow"
_CYCLE_MIN = 1024  # a shorter cycle would make each write and each comparison short


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """A number of equal lanes. A lane is one publisher, one topic and the subscribers that all get what it sends.

    The flow limit is end to end: a publisher is at most `window` messages ahead of its slowest subscriber, and, with
    QoS 1, of its confirmations. So no broker has a reason to drop, and loss is a fault.
    """

    protocol: str = MQTT
    lanes: int = 1
    subscribers_per_lane: int = 1
    publishes: bool = True  # False: the messages wait in the broker already
    qos: int = 0
    window: int = 1
    payload_bytes: int = 100
    messages_per_lane: int | None = None  # None: until the load is stopped
    topic: str = "bench/{lane}"  # of AMQP: the address of a queue, for both ends; of a topic with QoS 0
    topic_filter: str | None = "bench/{lane}"  # None: the session has it already. Of the flow protocol: a queue's name
    publisher_name: str = ""  # of the flow protocol, with `{lane}`: known again; empty: nothing is remembered of it
    subscriber_version: int = wire.MQTT_3_1_1
    subscriber_id: str | None = None  # with `{lane}`: a session that outlives the connection. None: a clean one

    @property
    def cycle(self) -> int:
        """Messages after which sequences and packet ids repeat: a window in flight never meets its own ids."""
        return max(_CYCLE_MIN, 2 * self.window)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReport:
    """What a load came to, once everything on its way has arrived or been given up."""

    published: int = 0
    confirmed: int = 0  # QoS 1 only
    expected: int = 0  # deliveries
    received: int = 0  # deliveries, repeated ones not counted
    duplicated: int = 0
    read_singly: int = 0

    @property
    def lost(self) -> int:
        """Deliveries that never came."""
        return self.expected - self.received

    def plus(self, other: "LoadReport") -> "LoadReport":
        """Return the sum of two workers' reports."""
        return LoadReport(
            published=self.published + other.published,
            confirmed=self.confirmed + other.confirmed,
            expected=self.expected + other.expected,
            received=self.received + other.received,
            duplicated=self.duplicated + other.duplicated,
            read_singly=self.read_singly + other.read_singly,
        )
