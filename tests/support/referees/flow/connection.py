"""The referee of the flow protocol: which frames a gateway may send on one connection, and when.

Violations begin with the section of `docs/connect/flow-protocol.md`. `grammar` checks the form of a frame; `publisher`,
`consumer` and `reader` check flows.
"""

import json
import struct
from collections import deque
from typing import Final

from support.referees.flow.consumer import ConsumerReferee, SettleTimes, read_delivery
from support.referees.flow.grammar import (
    CODES,
    COMPRESSED,
    PREFACE,
    RESPONSE,
    Fields,
    Frame,
    cut,
    fields_of,
    judge_form,
    number_of,
    texts_of,
)
from support.referees.flow.publisher import PublisherReferee, Remembered
from support.referees.flow.reader import ReaderReferee
from support.referees.violations import ClientViolation, expect

FlowReferee = ConsumerReferee | PublisherReferee | ReaderReferee
Names = dict[str, Remembered]  # by message VPN and name

BEFORE_PREFACE, GREETING, AUTHENTICATING, OPEN, OVER = "preface", "greeting", "authenticating", "open", "over"
_OF_SESSION: Final = {"PING", "PONG", "GOAWAY", "CLOSE"}
_OF_FLOWS: Final = {"PUB_ACK", "DELIVER", "CREDIT", "SETTLED", "FLOW_STATE", "PARTITIONS", "ROWS"}
_OF_LINKS: Final = {
    "LINK_DIGESTS",
    "LINK_INTERESTS",
    "LINK_ACK",
    "LINK_MESSAGES",
    "LINK_STORE",
    "LINK_STORED",
    "LINK_NEIGHBORS",
    "LINK_RETAINED",
    "LINK_FLOW",
    "LINK_DELIVER",
    "LINK_CLIENTS",
}
_UNANSWERED: Final = {"CLOSE", "PONG", "PARTITIONS_ACK"} | _OF_LINKS  # beside those of flows
_OPENING: Final = {"OPEN_PUB", "BIND", "READ"}
_ENDING: Final = {"CLOSE_PUB", "UNBIND"}
_BEFORE_OPEN: Final = {
    BEFORE_PREFACE: set(), GREETING: {"WELCOME", "ERROR"}, AUTHENTICATING: {"AUTH", "ERROR", "GOAWAY", "CLOSE"},
}  # fmt: skip
_WITH_ATTRIBUTES: Final = {"PROVISION", "ALTER"}
_CHALLENGE, _DONE, _FAILED = 0, 1, 2  # authentication states
_ATTEMPTS_MAX: Final = 3
_DEFLATED_FROM: Final = 512  # bytes of a body
_DIRECT: Final = 0x40  # flag of DELIVER


class FlowProtocolReferee:
    """Judges one connection. `names` is what one life of the gateway has said of publishers."""

    def __init__(self, names: Names, times: SettleTimes) -> None:
        self._names = names
        self._times = times
        self._from_gateway = bytearray()
        self._from_client = bytearray()
        self._state = BEFORE_PREFACE
        self._client_preface = b""
        self._hello: Fields | None = None
        self._welcome: Fields = {}
        self._auths_due = 0
        self._failed_count = 0
        self._pings: deque[bytes] = deque()  # that are to be answered
        self._is_going = False  # GOAWAY was sent
        self._requests: list[tuple[int, str, int]] = []  # without an answer: id, type, flow id
        self._subscribed: list[tuple[int, str]] = []  # request id and filter; a negative id: to be ended
        self._linked_count = 0  # message VPNs of a link; 0: it is none
        self._flow_id_max = 0  # that the client has asked for
        self._asked: dict[int, FlowReferee] = {}  # flows whose requests are not answered
        self._flows: dict[int, FlowReferee] = {}

    # --- the gateway ---

    def gateway_says(self, data: bytes) -> None:
        """Judge what the gateway writes. Raises WireViolation."""
        self._from_gateway += data
        if self._state == BEFORE_PREFACE:
            if len(self._from_gateway) < len(PREFACE):
                return
            preface = bytes(self._from_gateway[: len(PREFACE)])
            expect(preface == PREFACE, "Sessions 1", "the preface {}", preface.hex())
            del self._from_gateway[: len(PREFACE)]
            self._state = GREETING
        for frame in cut(self._from_gateway):
            try:
                self._judge(frame, judge_form(frame))
            except UnicodeDecodeError as error:
                expect(False, "Frames", "{} in {}", error, frame)

    def _judge(self, frame: Frame, fields: Fields) -> None:
        kind = frame.kind
        expect(self._state != OVER, "Sessions, The end", "{} behind the last frame", frame)
        allowed = _BEFORE_OPEN.get(self._state)
        expect(allowed is None or kind in allowed, "Sessions", "{}, and then {}", self._state, frame)
        is_answer = kind == "AUTH" or kind not in _OF_SESSION | _OF_FLOWS | _OF_LINKS | {"WELCOME", "ERROR"}
        is_response = bool(frame.flags & RESPONSE)
        expect(is_response == (is_answer or kind == "CREDIT"), "Frames", "RESPONSE of {}", frame)
        if frame.flags & COMPRESSED:
            self._judge_compressed(frame)
        for code in fields.get("code", ()):
            expect(code in CODES, "Errors", "the code of {}", frame)
        if kind in _OF_LINKS:
            expect(0 < frame.flow_id <= self._linked_count, "Links", "{} of {}", frame, self._linked_count)
        elif kind in _OF_FLOWS:
            self._of_flow(frame, fields)
        elif kind == "ERROR":
            self._error(frame, fields)
        elif is_answer and kind != "AUTH":
            self._answer(frame, fields)
        else:
            expect(frame.flow_id == 0, "Frames", "{} is of the session", frame)
            self._of_session(frame, fields)

    def _judge_compressed(self, frame: Frame) -> None:
        named = set(texts_of(self._hello or {}, "feature")) & set(texts_of(self._welcome, "feature"))
        expect("deflate" in named and self._state == OPEN, "Compression", "{} in {}", frame, self._state)
        expect(len(frame.body) >= _DEFLATED_FROM, "Compression", "{} bytes are compressed", len(frame.body))

    def _of_session(self, frame: Frame, fields: Fields) -> None:
        kind = frame.kind
        if kind == "WELCOME":
            expect(self._hello is not None, "Sessions 3", "{} before HELLO", frame)
            expect(
                bool(fields.get("mechanism")) and number_of(fields, "frame bytes") >= 4096, "Sessions 3", "{}", fields
            )
            self._welcome = fields
            self._state = AUTHENTICATING
        elif kind == "AUTH":
            expect(self._auths_due > 0, "Sessions 4", "{} answers nothing", frame)
            self._auths_due -= 1
            state = number_of(fields, "authentication state")
            expect(state <= _FAILED, "Sessions 4", "{}", fields)
            self._failed_count += state == _FAILED
            expect(self._failed_count <= _ATTEMPTS_MAX, "Before authentication", "{} have failed", self._failed_count)
            if state == _DONE:
                self._state = OPEN
        elif kind == "PONG":
            is_due = bool(self._pings) and self._pings.popleft() == frame.body
            expect(is_due, "Keep-alive", "{}, and no such PING", frame)
        elif kind == "PING":
            expect(len(frame.body) == 8, "Keep-alive", "{}", frame)
        elif kind == "GOAWAY":
            expect(not self._is_going, "The end", "{} again", frame)
            self._is_going = True
        else:
            self._state = OVER

    def _error(self, frame: Frame, fields: Fields) -> None:
        request_id = number_of(fields, "request id")
        expect(number_of(fields, "code") > 0, "Errors", "{}", frame)
        if request_id:
            kind = self._take_request(frame, request_id, "")
            if kind in _OPENING:
                del self._asked[frame.flow_id]
            self._subscribed = [each for each in self._subscribed if each[0] != request_id]
        elif frame.flow_id:
            expect(frame.flow_id in self._flows, "Errors", "{} ends no flow", frame)
            del self._flows[frame.flow_id]
        else:
            self._state = OVER

    def _answer(self, frame: Frame, fields: Fields) -> None:
        kind, flow_id = frame.kind, frame.flow_id
        request_id = number_of(fields, "request id")
        self._take_request(frame, request_id, kind)
        if kind in _OPENING:
            flow = self._asked.pop(flow_id)
            flow.answered(fields)
            self._flows[flow_id] = flow
        elif kind in _ENDING:
            self._flows.pop(flow_id, None)
        elif kind == "UNSUBSCRIBE":
            self._unsubscribed(request_id)
        elif kind in _WITH_ATTRIBUTES:
            expect(isinstance(json.loads(frame.body), dict), "Provisioning", "{}", frame)
        elif kind == "LINK":
            self._linked_count = _names_count(frame.body) // 2
        elif frame.body:  # positions
            expect(len(frame.body) == 4 + 36 * int.from_bytes(frame.body[:4], "big"), "Reading in bulk", "{}", frame)

    def _unsubscribed(self, request_id: int) -> None:
        """Nothing comes any more by a filter that was subscribed to before that request."""
        at = next(place for place, (number, _) in enumerate(self._subscribed) if number == -request_id)
        text = self._subscribed.pop(at)[1]
        before = [each for each in self._subscribed[:at] if each[0] < 0 or each[1] != text]
        self._subscribed[:at] = before

    def _take_request(self, frame: Frame, request_id: int, kind: str) -> str:
        """Find the request that a frame answers, and return its type; `kind` is what that has to be, or empty."""
        for request in self._requests:
            if request[0] == request_id and request[2] == frame.flow_id and kind in ("", request[1]):
                self._requests.remove(request)
                return request[1]
        expect(False, "Frame types", "{} answers nothing of {}", frame, self._requests)
        return ""

    def _of_flow(self, frame: Frame, fields: Fields) -> None:
        if frame.kind == "DELIVER":
            expect(not self._is_going, "The end", "{} behind GOAWAY", frame)
        if frame.flow_id == 0:
            self._direct(frame)
            return
        flow = self._flows.get(frame.flow_id)
        expect(flow is not None, "Frames", "{}, and there is no such flow", frame)
        assert flow is not None
        flow.gateway_says(frame, fields)
        if flow.is_over:
            del self._flows[frame.flow_id]

    def _direct(self, frame: Frame) -> None:
        """Subscriptions: a message that no client acknowledges."""
        expect(frame.kind == "DELIVER", "Frames", "{} is about a flow", frame)
        it = read_delivery(frame)
        expect(it.delivery_id == it.message_id == it.partition == it.epoch == 0, "Subscriptions", "{}", it)
        filters = [text for number, text in self._subscribed if number > 0]
        expect(any(matches(text, it.topic) for text in filters), "Subscriptions", "{}, of {}", it, filters)

    # --- the client ---

    def client_says(self, data: bytes) -> None:
        """Take the client's bytes. Raises ClientViolation, after which the gateway cannot be judged."""
        self._from_client += data
        if len(self._client_preface) < len(PREFACE):
            size = len(PREFACE) - len(self._client_preface)
            self._client_preface += self._from_client[:size]
            del self._from_client[:size]
        for frame in cut(self._from_client, _must):
            try:
                self._learn(frame)
            except (UnicodeDecodeError, struct.error) as error:
                raise ClientViolation(str(error)) from None

    def _learn(self, frame: Frame) -> None:
        kind, flow_id = frame.kind, frame.flow_id
        if kind == "HELLO":
            self._hello = fields_of(frame.fields, _must)
        elif kind == "AUTH":
            self._auths_due += 1
        elif kind == "PING":
            self._pings.append(frame.body)
        elif kind in ("PUBLISH", "SETTLE", "CREDIT"):
            flow = self._flows.get(flow_id)
            if flow is not None:
                flow.client_says(frame)
        elif kind in _OPENING or kind in _ENDING or kind not in _UNANSWERED:
            fields = fields_of(frame.fields, _must)
            request_id = number_of(fields, "request id")
            self._requests.append((request_id, kind, flow_id))
            if kind in _OPENING and flow_id > self._flow_id_max:
                self._flow_id_max = flow_id
                self._asked[flow_id] = self._referee_of(kind, fields)
            elif kind in ("SUBSCRIBE", "UNSUBSCRIBE"):
                number = request_id if kind == "SUBSCRIBE" else -request_id
                self._subscribed.append((number, "".join(texts_of(fields, "topic filter"))))

    def _referee_of(self, kind: str, fields: Fields) -> FlowReferee:
        if kind == "OPEN_PUB":
            return PublisherReferee(fields, self._names, "".join(texts_of(self._hello or {}, "message VPN")))
        return ConsumerReferee(fields, self._times) if kind == "BIND" else ReaderReferee(fields)


def _names_count(body: bytes) -> int:
    """Links: the names of message VPNs in the answer to LINK."""
    pos = count = 0
    while pos < len(body):
        pos, count = pos + 2 + int.from_bytes(body[pos : pos + 2], "big"), count + 1
    expect(pos == len(body) and count > 0 and count % 2 == 0, "Links", "{} names in {}", count, body.hex())
    return count


def matches(text: str, topic: str) -> bool:
    """Subscriptions: whether a topic is one of a filter's, which is in SMF's syntax or in MQTT's."""
    text = text.removeprefix("#noexport/").removeprefix("$noexport/")
    if text.startswith(("#share/", "$share/")):
        text = text.split("/", 2)[2]
    parts, levels = text.split("/"), topic.split("/")
    is_mqtt = "+" in parts or parts[-1] == "#"
    for place, part in enumerate(parts):
        if is_mqtt and part == "#":
            return True
        if place >= len(levels):
            return False
        if not is_mqtt and part == ">" and place == len(parts) - 1:
            return True
        is_any = part == "+" if is_mqtt else part.endswith("*") and levels[place].startswith(part[:-1])
        if not is_any and part != levels[place]:
            return False
    return len(levels) == len(parts)


def _must(holds: bool, section: str, text: str, *about: object) -> None:
    if not holds:
        raise ClientViolation(f"{section}: {text.format(*about)}")
