"""From the path of a request to the destination of its message.

`/TOPIC/a/b` and `/QUEUE/name`; a path without either is a topic. Percent-encoding is decoded, so a queue's name may
hold any character; a topic's levels are those of the path.
"""

from typing import Final, final
from urllib.parse import parse_qsl, unquote_to_bytes

from sluicegate.messaging.topics.syntax import (
    Destination,
    TopicError,
    check_published_topic,
    is_queue_topic,
    queue_topic,
)
from sluicegate.protocols.http.codec.responses import BAD_REQUEST, HttpProblem

TOPIC_PREFIX: Final = "/TOPIC/"
QUEUE_PREFIX: Final = "/QUEUE/"


def destination_of_path(raw_path: bytes) -> Destination:
    """Return where the message of a request with this path goes, as it stood in the request. Raises HttpProblem."""
    path = _decoded(raw_path)
    if path.startswith(QUEUE_PREFIX) or path.startswith(TOPIC_PREFIX):
        return destination_of_name(path)
    return _topic(path[1:])


def topic_of_request(method: str, raw_path: bytes) -> Destination:
    """Return the topic of a request in gateway mode: its method, and its path. Raises HttpProblem."""
    return _topic(method + _decoded(raw_path))


def queue_of_path(raw_path: bytes) -> str:
    """Return the name of the queue that a path `/QUEUE/name` leads to. Raises HttpProblem."""
    name = _decoded(raw_path)[len(QUEUE_PREFIX) :]
    if not name:
        raise HttpProblem(BAD_REQUEST, "/QUEUE/ without the name of a queue")
    return name


def destination_of_name(name: str) -> Destination:
    """Return what `/QUEUE/name` or `/TOPIC/topic` stands for. Raises HttpProblem."""
    if name.startswith(QUEUE_PREFIX):
        queue = name[len(QUEUE_PREFIX) :]
        if not queue:
            raise HttpProblem(BAD_REQUEST, "/QUEUE/ without the name of a queue")
        return Destination(queue_topic(queue), is_queue=True)
    if name.startswith(TOPIC_PREFIX):
        return _topic(name[len(TOPIC_PREFIX) :])
    raise HttpProblem(BAD_REQUEST, f"{name!r:.200} is neither /QUEUE/name nor /TOPIC/topic")


def name_of_topic(topic: str) -> str:
    """Return `/QUEUE/name` or `/TOPIC/topic` for the topic of a message."""
    return QUEUE_PREFIX + topic[len(queue_topic("")) :] if is_queue_topic(topic) else TOPIC_PREFIX + topic


def _decoded(raw_path: bytes) -> str:
    try:
        path = unquote_to_bytes(raw_path) if b"%" in raw_path else raw_path
        return path.decode("utf-8")
    except UnicodeDecodeError:
        raise HttpProblem(BAD_REQUEST, "the path is not UTF-8 when its percent-encoding is undone") from None


def _topic(topic: str) -> Destination:
    try:
        check_published_topic(topic)
    except TopicError as error:
        raise HttpProblem(BAD_REQUEST, f"topic {topic!r:.200}: {error}") from None
    return Destination(topic, is_queue=False)


# The query of a URL: names that are known here, each once, with values that are checked.


FIELDS_MAX = 20


@final
class Query:
    """The query of one request."""

    def __init__(self, raw: bytes) -> None:
        """Read it. Raises HttpProblem for what is no query, or has a name twice."""
        self._values: dict[str, str] = {}
        try:
            pairs = parse_qsl(
                raw.decode("ascii"),
                keep_blank_values=True,
                strict_parsing=bool(raw),
                errors="strict",
                max_num_fields=FIELDS_MAX,
            )
        except ValueError as error:  # UnicodeDecodeError is one
            raise HttpProblem(BAD_REQUEST, f"the query {raw!r:.200} cannot be read: {error}") from None
        for name, value in pairs:
            if name in self._values:
                raise HttpProblem(BAD_REQUEST, f"?{name:.80}: given more than once")
            self._values[name] = value

    def allow(self, names: tuple[str, ...]) -> None:
        """Raise HttpProblem when there is any other name."""
        for name in self._values:
            if name not in names:
                raise HttpProblem(BAD_REQUEST, f"?{name:.80}: allowed here are {', '.join(names)}")

    def text(self, name: str) -> str:
        """Return what is said under a name; empty when nothing is."""
        return self._values.get(name, "")

    def number(self, name: str, default: int, low: int, high: int) -> int:
        """Return a whole number. Raises HttpProblem."""
        value = self._values.get(name)
        if value is None:
            return default
        if not value.isascii() or not value.isdigit() or len(value) > 20 or not low <= int(value) <= high:
            raise HttpProblem(BAD_REQUEST, f"?{name}: {value!r:.80} is no whole number from {low} to {high}")
        return int(value)

    def flag(self, name: str) -> bool:
        """Return whether a flag is `true`; without it it is not. Raises HttpProblem."""
        value = self._values.get(name, "false").lower()
        if value not in ("true", "false"):
            raise HttpProblem(BAD_REQUEST, f"?{name}: {value!r:.80} is neither true nor false")
        return value == "true"
