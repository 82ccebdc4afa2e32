"""The HTTP responses of a node, parsed as they come: statuses, refusals, and deliveries in responses and streams."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import httptools
import orjson

from simulation.wires.mqtt_tap import number_of

FINAL_MIN: Final = 200  # statuses below are of responses that another one follows
EVENTS, LINES = "text/event-stream", "application/x-ndjson"


class Delivery(NamedTuple):
    """A message that a worker gets."""

    flow_id: str
    number: int  # of the delivery, within its flow
    message_number: int
    is_redelivered: bool
    tries: int  # this one among them


@dataclass(eq=False)
class Answer:
    """An answer, or what has come of it since the last look."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_whole: bool = False

    @property
    def flow_id(self) -> str:
        """Return the flow that was read; empty where none was."""
        return self.headers.get("sluicegate-flow", "").removeprefix("/FLOW/")

    def deliveries(self) -> list[Delivery]:
        """Return the messages that it brings."""
        kind = self.headers.get("content-type")
        if kind == EVENTS:
            events = [event.split(b"\n") for event in self.body.split(b"\n\n")]
            lines = [event[-1].removeprefix(b"data: ") for event in events if b"event: message" in event]
        elif kind == LINES:
            lines = self.body.splitlines()
        elif "sluicegate-settle" in self.headers:
            return [self._only()]
        else:
            return []
        return [_of_line(orjson.loads(line)) for line in lines]

    def ends_flow(self) -> bool:
        """Return whether a stream reports the end of its flow."""
        is_stream = self.headers.get("content-type") == EVENTS
        return is_stream and b"event: end" in self.body and b"another request reads" not in self.body

    def _only(self) -> Delivery:
        flow_id, _, number = self.headers["sluicegate-settle"].removeprefix("/FLOW/").partition("/")
        is_redelivered = self.headers.get("sluicegate-redelivered") == "true"
        count = int(self.headers.get("sluicegate-delivery-count", "1"))
        return Delivery(flow_id, int(number), number_of(self.body), is_redelivered, count)


class AnswerReader:
    """Cuts what the node writes into answers; of a stream it gives what has come."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._answer = Answer()
        self._whole: list[Answer] = []

    def feed(self, data: bytes) -> list[Answer]:
        """Return the answers that are whole now, and what there is of a stream."""
        self._parser.feed_data(data)
        answers, self._whole = self._whole, []
        if self._answer.headers.get("content-type") == EVENTS:
            events, end, rest = self._answer.body.rpartition(b"\n\n")
            answers.append(Answer(self._answer.status, self._answer.headers, events + end))
            self._answer.body = rest
        return answers

    # --- what the parser says ---

    def on_message_begin(self) -> None:
        self._answer = Answer()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._answer.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._answer.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self._answer.body += body

    def on_message_complete(self) -> None:
        self._answer.is_whole = True
        if self._answer.status >= FINAL_MIN:
            self._whole.append(self._answer)
        self._answer = Answer()


def _of_line(line: dict[str, object]) -> Delivery:
    payload, settle = line["payload"], line["settle"]
    assert isinstance(payload, str)
    assert isinstance(settle, str)
    flow_id, _, number = settle.removeprefix("/FLOW/").partition("/")
    is_redelivered, count = line["redelivered"] is True, int(str(line["delivery_count"]))
    return Delivery(flow_id, int(number), number_of(payload.encode()), is_redelivered, count)
