"""The JetStream API over modelled streams: requests that are answered at once by the leader, and consumers."""

import base64
from collections.abc import Callable
from typing import Any, Final

import orjson

from simulation.replicas.servers.stream import Answer, ModelStream, Stored, error, matches

API: Final = "$JS.API."
NO_MESSAGE: Final = 10037
IN_USE: Final = 10058
NO_STREAM: Final = 10059
SUBJECTS_PER_ANSWER: Final = 2  # so that more than one request is needed


class Api:
    """The streams of the servers."""

    def __init__(self) -> None:
        self.streams: Final[dict[str, ModelStream]] = {}
        self.unchecked = ""  # a stream whose writes are compared with nothing
        self.purged: Callable[[ModelStream], None] = lambda _: None  # a stream was trimmed or purged

    def stream_of(self, subject: str) -> ModelStream | None:
        """Return the stream that stores messages of a subject."""
        return next((each for each in self.streams.values() if each.takes(subject)), None)

    def answer(self, subject: str, payload: bytes) -> Answer:
        """Carry a request out."""
        area, verb, *rest = subject.removeprefix(API).split(".", 3)
        if (area, verb) == ("STREAM", "MSG"):
            verb, rest = "MSG.GET", rest[-1:]
        body: dict[str, Any] = orjson.loads(payload) if payload else {}
        name = rest[0]
        if verb == "CREATE" and area == "STREAM":
            return self._create(name, body)
        stream = self.streams.get(name)
        if stream is None:
            return error(404, NO_STREAM, "stream not found")
        if verb == "INFO":
            return _info(stream, body)
        if verb == "MSG.GET":
            return _get(stream, body)
        assert verb == "PURGE", subject
        if "filter" in body:
            stream.purge(body["filter"])
        else:
            stream.trim(body["seq"])
        self.purged(stream)
        return {"success": True}

    def _create(self, name: str, config: dict[str, Any]) -> Answer:
        stream = self.streams.setdefault(name, ModelStream(config, compares=name != self.unchecked))
        return {"config": stream.config} if stream.config == config else error(400, IN_USE, "stream name in use")


def _info(stream: ModelStream, body: dict[str, Any]) -> Answer:
    state: dict[str, Any] = {"first_seq": stream.first, "last_seq": stream.last, "bytes": stream.byte_count}
    answer: Answer = {"config": stream.config, "state": state}
    if "subjects_filter" in body:
        there = {each.subject for each in stream.messages.values()}
        found = sorted(each for each in there if matches(each, body["subjects_filter"]))
        offset = body["offset"]
        state["subjects"] = dict.fromkeys(found[offset : offset + SUBJECTS_PER_ANSWER], 1)
        answer["total"] = len(found)
    return answer


def _get(stream: ModelStream, body: dict[str, Any]) -> Answer:
    found: Stored | None
    if "last_by_subj" in body:
        found = stream.last_of(body["last_by_subj"])
    elif "next_by_subj" in body:
        found = stream.next_of(body["next_by_subj"], body["seq"])
    else:
        found = stream.messages.get(body["seq"])
    if found is None:
        return error(404, NO_MESSAGE, "no message found")
    return {
        "message": {
            "subject": found.subject,
            "seq": found.sequence,
            "data": base64.b64encode(found.data).decode(),
        }
    }
