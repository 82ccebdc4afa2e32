"""Single messages over HTTP and on the command line: what is asked for, and how a wrong request reads."""

import orjson
import pytest

from sluicegate.gateway.views.queues.selections import FIELDS_OF_MOVE, FIELDS_OF_REDRIVE, IDS_MAX, selection_from_dict
from sluicegate.messaging.queues.definition import QueueInvalid
from sluicegate.messaging.queues.message_filter import MessageId
from sluicegate.messaging.selectors.selector import Selectors
from support.operations.memory_node import MemoryNode
from support.operations.running_admin import RunningAdmin


@pytest.fixture
def queues(admin: RunningAdmin, node: MemoryNode) -> RunningAdmin:
    """Two queues, the first with three messages."""
    for name in ("q", "other"):
        admin.ask("POST", "/queues", {"name": name})
    for payload in (b"one", b"two", b"three"):
        node.publish("q", payload)
    return admin


def test_messages_are_deleted_copied_and_moved_by_id(queues: RunningAdmin, node: MemoryNode) -> None:
    """Solace 4.15."""
    copied = queues.ask("POST", "/queues/q/messages/copy", {"to": "other", "ids": ["0:1"]})
    moved = queues.ask("POST", "/queues/q/messages/move", {"to": "other", "ids": ["0:2", "0:9"]})
    deleted = queues.ask("POST", "/queues/q/messages/delete", {"ids": ["0:1"]})

    assert [answer.json() for answer in (copied, moved, deleted)] == [
        {"done_count": 1, "kept": {}, "not_found": []},
        {"done_count": 1, "kept": {}, "not_found": ["0:9"]},
        {"done_count": 1, "kept": {}, "not_found": []},
    ]
    assert [message.payload for message in node.messages["q"]] == ["three"]
    assert [message.payload for message in node.messages["other"]] == ["one", "two"]


def test_a_redrive_is_begun_watched_and_ended(queues: RunningAdmin) -> None:
    assert queues.ask("GET", "/queues/q/redrive").status == 409
    begun = queues.ask("POST", "/queues/q/redrive", {"rate": 5, "dead_reason": "expired"})
    assert (begun.status, begun.json()["state"], begun.json()["rate"], begun.json()["limit"]) == (202, "running", 5, 0)
    assert queues.ask("POST", "/queues/q/redrive", {}).status == 409
    assert queues.ask("DELETE", "/queues/q/redrive").json()["state"] == "cancelled"
    assert queues.ask("GET", "/queues/q/redrive").json()["state"] == "cancelled"


@pytest.mark.parametrize(
    ("body", "field", "detail"),
    [
        ({}, "to", "it is missing"),
        ({"to": "other", "ids": ["7"]}, "ids", "'7' is no message id"),
        ({"to": "other", "ids": ["0:0"]}, "ids", "'0:0' is no message id"),
        ({"to": "other", "ids": ["1000:1"]}, "ids", "'1000:1' is no message id"),
        ({"to": "other", "ids": []}, "ids", "it is not a list of ids"),
        ({"to": "other", "ids": ["0:1"] * (IDS_MAX + 1)}, "ids", "it is not a list of ids"),
        ({"to": "other", "ids": [3]}, "ids", "3 is no text"),
        ({"to": "other", "ids": ["0:1"], "topic": "a"}, "ids", "they come together with a filter"),
        ({"to": "other", "ids": ["0:1"], "selector": "a = 1"}, "ids", "they come together with a filter"),
        ({"to": "other", "selector": 5}, "selector", "5 is not allowed"),
        ({"to": "other", "topic": "a//#b"}, "topic", "topic filter"),
        ({"to": "other", "dead_reason": "bored"}, "dead_reason", "'bored' is no reason"),
        ({"to": "other", "limit": 0}, "limit", "0 is not allowed"),
        ({"to": "other", "older_than_s": True}, "older_than_s", "true is not allowed"),
        ({"to": "other", "rate": 3}, "rate", "there is no such field"),
        ({"to": ""}, "to", "'' is not allowed"),
    ],
)
def test_a_selection_that_makes_no_sense_is_refused_by_field(
    queues: RunningAdmin, body: dict[str, object], field: str, detail: str
) -> None:
    answer = queues.ask("POST", "/queues/q/messages/move", body)

    assert (answer.status, answer.json()["field"]) == (422, field)
    assert detail in str(answer.json()["detail"])


def test_ids_are_sorted_and_each_counts_once() -> None:
    selection = selection_from_dict({"to": "x", "ids": ["1:5", "0:7", "1:5", "1:2"]}, FIELDS_OF_MOVE)

    assert selection.ids == (MessageId(0, 7), MessageId(1, 2), MessageId(1, 5))


def test_a_redrive_goes_on_to_the_end_unless_it_is_limited() -> None:
    assert selection_from_dict({}, FIELDS_OF_REDRIVE).limit == 0
    with pytest.raises(QueueInvalid, match="rate: -1 is not allowed"):
        selection_from_dict({"rate": -1}, FIELDS_OF_REDRIVE)


def test_an_age_is_counted_back_from_now() -> None:
    message_filter = selection_from_dict({"older_than_s": 10}, FIELDS_OF_REDRIVE).message_filter(100_000, Selectors({}))

    assert message_filter.received_before_ms == 90_000


def test_the_bodies_stand_in_the_document(admin: RunningAdmin) -> None:
    document = orjson.loads(admin.ask("GET", "/openapi.json").body)

    schemas = document["components"]["schemas"]
    assert list(schemas["MoveMessages"]["properties"]) == list(FIELDS_OF_MOVE)
    assert schemas["RedriveMessages"]["properties"]["limit"]["minimum"] == 0


def test_head_of_what_is_endless_begins_nothing(
    queues: RunningAdmin, node: MemoryNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would read it to its end."""

    async def begun(*args: object, **options: object) -> None:
        raise AssertionError("nobody reads it")

    monkeypatch.setattr(MemoryNode, "follow_queue", begun)
    monkeypatch.setattr(MemoryNode, "trace_client", begun)
    monkeypatch.setattr(MemoryNode, "trace_username", begun)
    assert queues.ask("HEAD", "/queues/q/messages?follow=1").status == 200
    assert queues.ask("HEAD", "/queues/none/messages?follow=1").status == 404
    assert queues.ask("HEAD", "/clients/none/trace").status == 404
    assert queues.ask("HEAD", "/trace?client_username=ada").status == 200
