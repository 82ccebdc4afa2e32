"""One stream of JetStream, as a majority of the servers has it: messages in one order, and what writes are compared to.

Answers are those of the server, with its codes. `tests/replication` holds the client against real servers.
"""

from typing import Any, Final, NamedTuple

LAST: Final = "Nats-Expected-Last-Sequence"
LAST_OF_SUBJECT: Final = "Nats-Expected-Last-Subject-Sequence"
OVERHEAD_BYTES: Final = 30  # of each message in the server's file, about

Answer = dict[str, Any]


class Stored(NamedTuple):
    """A message of a stream."""

    sequence: int
    subject: str
    data: bytes


class ModelStream:
    """The messages of one stream."""

    def __init__(self, config: dict[str, Any], *, compares: bool = True) -> None:
        """`compares`: writes with what they expect, once there is a message."""
        self.config: Final = config
        self._compares: Final = compares
        self.messages: Final[dict[int, Stored]] = {}  # in their order
        self.last = 0
        self.byte_count = 0

    @property
    def first(self) -> int:
        """Sequence of the first message that is there; behind the last one when none is."""
        return next(iter(self.messages), self.last + 1)

    def takes(self, subject: str) -> bool:
        """Return whether messages of a subject are stored here."""
        return any(matches(subject, each) for each in self.config["subjects"])

    def write(self, subject: str, data: bytes, headers: dict[str, str]) -> Answer:
        """Store a message if the stream is as the headers expect it, and has room."""
        is_compared = self._compares or self.last == 0
        if LAST in headers and int(headers[LAST]) != self.last and is_compared:
            return error(400, 10071, f"wrong last sequence: {self.last}")
        if LAST_OF_SUBJECT in headers:
            found = self.last_of(subject)
            last = 0 if found is None else found.sequence
            if int(headers[LAST_OF_SUBJECT]) != last:
                return error(400, 10071, f"wrong last sequence: {last}")
        size = _size(subject, data)
        if 0 < self.config["max_bytes"] < self.byte_count + size:
            return error(503, 10077, "maximum bytes exceeded")
        if self.config["max_msgs_per_subject"] == 1:
            self.purge(subject)
        self.last += 1
        self.messages[self.last] = Stored(self.last, subject, data)
        self.byte_count += size
        return {"stream": self.config["name"], "seq": self.last}

    def purge(self, pattern: str) -> None:
        """Delete the messages of some subjects."""
        for each in [each for each in self.messages.values() if matches(each.subject, pattern)]:
            self._delete(each)

    def trim(self, before: int) -> None:
        """Delete the messages before a sequence."""
        for each in [each for each in self.messages.values() if each.sequence < before]:
            self._delete(each)

    def last_of(self, subject: str) -> Stored | None:
        """Return the last message of a subject."""
        return next((each for each in reversed(self.messages.values()) if each.subject == subject), None)

    def next_of(self, subject: str, sequence: int) -> Stored | None:
        """Return the first message of a subject from a sequence on."""
        found = (each for each in self.messages.values() if each.sequence >= sequence and each.subject == subject)
        return next(found, None)

    def _delete(self, message: Stored) -> None:
        del self.messages[message.sequence]
        self.byte_count -= _size(message.subject, message.data)


def error(code: int, err_code: int, description: str) -> Answer:
    """Return an answer that refuses."""
    return {"error": {"code": code, "err_code": err_code, "description": description}}


def matches(subject: str, pattern: str) -> bool:
    """Return whether a subject is one of a pattern: `*` stands for a token, and `>` for all at the end."""
    if "*" not in pattern:
        return subject.startswith(pattern[:-1]) if pattern.endswith(">") else subject == pattern
    tokens, wanted = subject.split("."), pattern.split(".")
    return len(tokens) == len(wanted) and all(each in ("*", has) for has, each in zip(tokens, wanted, strict=True))


def _size(subject: str, data: bytes) -> int:
    return len(subject) + len(data) + OVERHEAD_BYTES
