"""The load plan: a typed value for the worker processes."""

from dataclasses import dataclass
from typing import Final

from bench.wire import mqtt as wire

MQTT: Final = "mqtt"
MQTT_TLS: Final = "mqtt_tls"
MQTT_WEBSOCKET: Final = "mqtt_websocket"
AMQP: Final = "amqp"
FLOW: Final = "flow"
HTTP: Final = "http"

_CYCLE_MIN: Final = 1024  # a shorter cycle would make each write and each comparison short
_CYCLE_BYTES_MAX: Final = 64 << 20  # written out for each publisher, unless its window is longer
_STALL_S: Final = 3  # of a broker that gets messages at a rate, until its publishers wait for it
_MANY_LANES: Final = 64  # from here on the cycles of all together would not fit into memory
_CYCLE_MIN_OF_MANY: Final = 128
_APART: Final = 32  # windows by which one of several competing consumers may lag behind another, in its socket


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """A number of equal lanes. A lane is publishers, what they publish to, and the subscribers that get it.

    The flow limit is end to end: the publishers of a lane are at most `window` messages ahead of its slowest
    subscriber, and, with QoS 1 and 2, of their confirmations. So no broker has a reason to drop, and loss is a fault.
    With a `rate` there is no such limit: messages go out when they are due.

    Message n of a publisher belongs to stream `n % streams`. If `topic` or `key` contains the stream's name, the order
    is checked for each stream, otherwise for each publisher.
    """

    protocol: str = MQTT  # of the subscribers
    publisher_protocol: str | None = None  # None: the subscribers'
    lanes: int = 1
    publishers_per_lane: int = 1  # 0: the messages wait in the broker already
    subscribers_per_lane: int = 1
    competing: bool = False  # each message goes to one of the subscribers, not to all
    qos: int = 0
    window: int = 1
    rate: float | None = None  # messages a second of all lanes together
    warm_up_s: float = 1.0  # before anything is measured
    payload_sizes: tuple[int, ...] = (100,)  # stream k has the size `k % len(payload_sizes)`
    messages_per_lane: int | None = None  # of one publisher; None: until the load is stopped
    streams: int = 1  # of each publisher
    topic: str = "bench/{lane}"  # of AMQP: an address. `{publisher}` and `{stream}` are replaced too
    topic_filter: str | None = "bench/{lane}"  # None: the session has it already. Of the flow protocol: a queue's name
    retain: bool = False
    key: str = ""  # with `{stream}`: the partition key; MQTT 5 only
    queue: str | None = None  # with `{lane}`: a durable queue that collects `topic_filter`, and is consumed
    queue_attributes: tuple[tuple[str, str | int], ...] = ()
    publisher_name: str = ""  # of the flow protocol, with `{lane}`: known again; empty: nothing is remembered of it
    subscriber_version: int = wire.MQTT_3_1_1
    subscriber_id: str | None = None  # with `{lane}`: a session that outlives the connection. None: a clean one
    unmatched_count: int = 0  # subscriptions with wildcards that one more client has, and nothing is published to

    @property
    def payload_bytes(self) -> int:
        """The largest payload."""
        return max(self.payload_sizes)

    @property
    def cycle(self) -> int:
        """Messages of a publisher after which its streams, sequences and packet ids repeat.

        It has twice as many messages as lie between any two in flight, so that no message meets its own id, and a
        sequence shows which of two was first. Each stream has an equal part.
        """
        least = _CYCLE_MIN if self.lanes <= _MANY_LANES else _CYCLE_MIN_OF_MANY
        least = min(least, max(2, _CYCLE_BYTES_MAX // self.payload_bytes))
        rated = 0 if self.rate is None else int(_STALL_S * self.rate / self.lanes)
        span = min(_APART * self.window, (wire.CYCLE_MAX - self.streams) // 2) if self.competing else self.window
        rounds = -(-max(least, 2 * span, 2 * rated) // self.streams)
        return self.streams * max(rounds, 4 if self.streams > 1 else 1)

    @property
    def sequence_modulus(self) -> int:
        """Where the sequences in payloads begin again: those written out beforehand repeat with their cycle."""
        return 1 << 32 if (self.publisher_protocol or self.protocol) in (AMQP, FLOW) else self.cycle

    @property
    def tallied(self) -> bool:
        """Whether a subscriber gets something else than one stream of one publisher, in order."""
        return self.competing or self.streams > 1 or self.publishers_per_lane > 1 or self.qos == 2

    def stream_names(self, lane: int, publisher: int) -> list[tuple[str, str]]:
        """Return topic and key of each stream of a publisher."""
        return [
            (
                self.topic.format(lane=lane, publisher=publisher, stream=stream),
                self.key.format(lane=lane, publisher=publisher, stream=stream),
            )
            for stream in range(self.streams)
        ]
