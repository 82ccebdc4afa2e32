"""The events that the engine reports: one class for each thing a client can do.

On the data path an event carries a run of messages or of packet ids, never one packet where several will do. The
session logic answers events with the engine's commands.
"""

from typing import Final, NamedTuple, final

from mypy_extensions import i64, mypyc_attr

from sluicegate.messaging.message.batch import AT_MOST_ONCE, MessageBatch
from sluicegate.messaging.message.headers import Headers
from sluicegate.messaging.message.usage import text_bytes
from sluicegate.protocols.mqtt.codec.message_properties import MessageProperties

# The will message, as a client left it in CONNECT. When it is published is the session's matter [3.1.2-8].


NO_EXPIRY: Final = -1


@final
class Will:
    """One will. Its QoS, RETAIN flag and properties are those of the PUBLISH it becomes."""

    def __init__(
        self, *, topic: str, payload: bytes, qos: int, retain: bool, delay_s: int, properties: MessageProperties | None
    ) -> None:
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.delay_s = delay_s  # from the close to publishing; the session's end comes first if it is earlier
        self.expiry_s = NO_EXPIRY if properties is None else properties.expiry_s  # from publishing on
        self._properties = properties

    def usage_bytes(self) -> int:
        """Return its quota usage while it is delayed: that of the message it is."""
        headers = self.headers(0)
        size = len(self.payload) + int(text_bytes(self.topic))
        return size if headers is None else size + int(headers.memory_bytes())

    def headers(self, wall_ms: int) -> Headers | None:
        """Return the headers of a will published now: its expiry starts with this moment."""
        return None if self._properties is None else self._properties.headers(wall_ms)

    def __repr__(self) -> str:
        return f"Will({self.topic!r}, {len(self.payload)} bytes, qos={self.qos}, delay_s={self.delay_s})"


@final
class ConnectReceived:
    """A valid CONNECT. The engine waits for `accept` or `refuse`; packets behind it are not to be obeyed yet."""

    def __init__(
        self,
        *,
        level: int,
        client_id: str,
        clean_start: bool,
        keep_alive_s: int,
        user_name: str | None,
        password: bytes | None,
        will: Will | None,
        session_expiry_s: int,
        receive_maximum: int,
        maximum_packet_size: int,
        topic_alias_maximum: int,
        request_problem_information: bool,
        request_response_information: bool,
        authentication_method: str | None,
        authentication_data: bytes | None,
        user_properties: list[tuple[str, str]],
    ) -> None:
        self.level = level  # 3: 3.1, 4: 3.1.1, 5: 5.0
        self.client_id = client_id  # empty: `accept` has to be given an assigned one
        self.clean_start = clean_start  # 3.x: Clean Session, which also ends the session at the close
        self.keep_alive_s = keep_alive_s  # 0: off
        self.user_name = user_name
        self.password = password
        self.will = will
        # 0xFFFFFFFF: never. 3.x has no such field: clean session 1 reads as 0, clean session 0 as never.
        self.session_expiry_s = session_expiry_s
        self.receive_maximum = receive_maximum  # QoS>0 messages the client takes unacknowledged; 3.x: 65535
        self.maximum_packet_size = maximum_packet_size  # 0: no limit
        self.topic_alias_maximum = topic_alias_maximum
        self.request_problem_information = request_problem_information
        self.request_response_information = request_response_information
        self.authentication_method = authentication_method
        self.authentication_data = authentication_data
        self.user_properties = user_properties

    def __repr__(self) -> str:
        return f"ConnectReceived(level={self.level}, client_id={self.client_id!r}, clean_start={self.clean_start})"


@final
@mypyc_attr(free_list_len=1)
class PublishReceived:
    """Consecutive PUBLISH packets of equal QoS and RETAIN flag.

    Their packet ids are runs (first, last), both inclusive and ascending, in the order of the batch's rows: mostly one,
    of which a list would cost 600 instructions for a message that comes alone.
    """

    def __init__(self, batch: MessageBatch, first: i64, last: i64, before: list[tuple[int, int]]) -> None:
        self.batch = batch
        self.first = first  # the last run; means nothing for QoS 0
        self.last = last
        self.before = before  # the runs before it

    @property
    def packet_ids(self) -> list[tuple[int, int]]:
        """All runs; none for QoS 0."""
        return [] if self.batch.qos == AT_MOST_ONCE else [*self.before, (self.first, self.last)]

    def alone(self, row: int, packet_id: int) -> "PublishReceived":
        """Return one of the packets."""
        return PublishReceived(self.batch.select([row]), packet_id, packet_id, [])

    def __repr__(self) -> str:
        return f"PublishReceived({self.batch!r}, packet_ids={self.packet_ids})"


@final
@mypyc_attr(free_list_len=1)
class AcknowledgementReceived:
    """A run of PUBACK, PUBREC, PUBREL or PUBCOMP with ascending packet ids and equal reason code."""

    def __init__(self, kind: i64, first: i64, last: i64, reason_code: i64) -> None:
        self.kind = kind  # packet type: PUBACK, PUBREC, PUBREL or PUBCOMP of `fixed_header`
        self.first = first
        self.last = last  # inclusive
        self.reason_code = reason_code  # 3.x: 0

    def __repr__(self) -> str:
        return f"AcknowledgementReceived({self.kind}, {self.first}, {self.last}, 0x{self.reason_code:02x})"


@final
class SubscriptionRequest:
    """One entry of a SUBSCRIBE. The filter is a valid string; whether it is a valid filter is answered in SUBACK."""

    def __init__(
        self, filter_text: str, qos: int, no_local: bool, retain_as_published: bool, retain_handling: int
    ) -> None:
        self.filter_text = filter_text
        self.qos = qos
        self.no_local = no_local
        self.retain_as_published = retain_as_published
        self.retain_handling = retain_handling

    def __repr__(self) -> str:
        options = (self.qos, self.no_local, self.retain_as_published, self.retain_handling)
        return f"SubscriptionRequest({self.filter_text!r}, {options})"


@final
class SubscribeReceived:
    """A SUBSCRIBE, to be answered by `suback` with one code for each request."""

    def __init__(
        self,
        packet_id: int,
        requests: list[SubscriptionRequest],
        subscription_identifier: int,
        selectors: list[str],
        priorities: list[str],
        partition_counts: list[str],
    ) -> None:
        self.packet_id = packet_id
        self.requests = requests
        self.subscription_identifier = subscription_identifier  # 0: none
        self.selectors = selectors  # the User Properties `selector`: one of them is in force for all filters
        self.priorities = priorities  # the User Properties `dto-priority`, for all filters as well
        self.partition_counts = partition_counts  # the User Properties `partition-count`: one, for the shared ones

    def __repr__(self) -> str:
        properties = [self.subscription_identifier, self.selectors, self.priorities, self.partition_counts]
        return f"SubscribeReceived({self.packet_id}, {self.requests}, {properties})"


@final
class UnsubscribeReceived(NamedTuple):
    """An UNSUBSCRIBE, to be answered by `unsuback` with one code for each filter."""

    packet_id: int
    filters: list[str]


@final
class DisconnectReceived(NamedTuple):
    """The client left. Nothing more is read or sent."""

    reason_code: int  # 0 deletes the will, any other publishes it
    session_expiry_s: int  # -1: as in CONNECT


@final
class AuthReceived(NamedTuple):
    """A step of authentication, to be answered by `auth`, `accept`, `refuse` or `disconnect`."""

    reason_code: int  # CONTINUE_AUTHENTICATION, or RE_AUTHENTICATE on a live connection
    method: str
    data: bytes | None


@final
class PeerViolated(NamedTuple):
    """The last event of a connection whose client broke a rule or fell silent. It ends abnormally: its will is due."""

    reason_code: int
    text: str
    answer: bytes  # the response in the engine's output; empty: close without one


MqttEvent = (
    ConnectReceived
    | PublishReceived
    | AcknowledgementReceived
    | SubscribeReceived
    | UnsubscribeReceived
    | DisconnectReceived
    | AuthReceived
    | PeerViolated
)

_NOTHING: Final[list[MqttEvent]] = []  # what most reads bring besides their first event


@final
@mypyc_attr(free_list_len=1)
class ReceivedEvents:
    """The events of one read, in wire order: mostly one, for which a list would cost 300 instructions."""

    def __init__(self) -> None:
        self.first: MqttEvent | None = None  # None: nothing at all
        self.further: list[MqttEvent] = _NOTHING  # behind the first; the connection may keep it

    def add(self, event: MqttEvent) -> None:
        """Append an event."""
        if self.first is None:
            self.first = event
        elif self.further is _NOTHING:
            self.further = [event]
        else:
            self.further.append(event)

    def drop(self) -> None:
        """Drop all events."""
        self.first = None
        self.further = _NOTHING
