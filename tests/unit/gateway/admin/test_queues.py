"""Queues over HTTP, through a real server: what works, and how errors read (RFC 9457)."""

from urllib.parse import quote

import orjson
import pytest

from sluicegate.gateway.admin.requests import BODY_BYTES_MAX
from sluicegate.gateway.views.queues.selections import SEQUENCE_MAX, ReplayStart
from support.operations.memory_node import MemoryNode, cursor_view_of
from support.operations.running_admin import Answer, RunningAdmin


def detail(answer: Answer) -> object:
    """Return the sentence of a problem, after checking that it is one."""
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == answer.status
    assert problem["type"] == "about:blank"
    return problem["detail"]


def test_a_created_queue_is_shown_with_its_attributes_and_partitions(admin: RunningAdmin) -> None:
    body = {"name": "orders", "access_type": "non-exclusive", "partition_count": 3, "subscriptions": ["orders/>"]}
    created = admin.ask("POST", "/queues", body)
    assert created.status == 201
    assert created.headers["location"] == "/queues/orders"

    shown = admin.ask("GET", "/queues/orders").json()
    assert shown == created.json()
    assert shown["subscriptions"] == ["orders/>"]
    config, partitions = shown["config"], shown["partitions"]
    assert isinstance(config, dict)
    assert isinstance(partitions, list)
    assert config["partition_count"] == len(partitions) == 3


@pytest.mark.parametrize("name", ["orders/eu/1", "a b", "100%", "größe", "a#b", "a/purge", "a/messages"])
def test_any_permitted_name_works_when_percent_encoded(admin: RunningAdmin, node: MemoryNode, name: str) -> None:
    created = admin.ask("POST", "/queues", {"name": name})
    path = created.headers["location"]
    assert path == "/queues/" + quote(name, safe="")
    assert admin.ask("GET", path).status == 200
    assert admin.ask("POST", f"{path}/purge").json() == {"purged_count": 0}
    assert admin.ask("DELETE", path).status == 204
    assert node.definitions == {}


def test_a_change_changes_what_it_names(admin: RunningAdmin, node: MemoryNode) -> None:
    admin.ask("POST", "/queues", {"name": "q", "max_ttl": 5, "subscriptions": ["a"]})
    assert admin.ask("PATCH", "/queues/q", {"max_bind_count": 2}).status == 200
    assert node.definitions["q"].config.max_bind_count == 2
    assert node.definitions["q"].config.max_ttl == 5
    assert node.definitions["q"].subscriptions == ("a",)


def test_messages_are_browsed_in_pages_and_stay(admin: RunningAdmin, node: MemoryNode) -> None:
    admin.ask("POST", "/queues", {"name": "q"})
    node.publish("q", b"one", key="k1")
    node.publish("q", b"\xff\x00", delivery_count=2)
    node.publish("q", b"three")

    answer = admin.ask("GET", "/queues/q/messages?after=1&limit=1").json()["messages"]
    assert isinstance(answer, list)
    assert [(m["id"], m["payload"], m["payload_encoding"], m["delivery_count"]) for m in answer] == [
        ("0:2", "/wA=", "base64", 2)
    ]
    assert admin.ask("POST", "/queues/q/purge").json() == {"purged_count": 3}


def test_errors_say_what_was_wrong_and_what_would_do(admin: RunningAdmin, node: MemoryNode) -> None:
    assert detail(admin.ask("GET", "/queues/none")) == "there is no queue 'none'"
    wrong = admin.ask("POST", "/queues", {"name": "q", "max_ttl": -1})
    assert (wrong.status, detail(wrong)) == (
        422,
        "max_ttl: -1 is not allowed; allowed: a whole number from 0 to 4294967295",
    )
    assert wrong.json()["field"] == "max_ttl"
    assert admin.ask("POST", "/queues", {"name": "q"}).status == 201
    again = admin.ask("POST", "/queues", {"name": "q"})
    assert (again.status, detail(again)) == (409, "there is a queue 'q' already")
    node.refusal = "two flows are bound; unbind them first"
    refused = admin.ask("DELETE", "/queues/q")
    assert (refused.status, detail(refused)) == (409, node.refusal)
    wrong = admin.ask("POST", "/queues", {"name": "p", "durable": "no"})
    assert (wrong.status, detail(wrong)) == (422, "durable: 'no' is not allowed; allowed: true or false")
    partition = admin.ask("GET", "/queues/q/messages?partition=7")
    assert (partition.status, detail(partition)) == (422, "partition: 7 does not exist; allowed: 0 to 0")


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=x", "after=-1", "partition=1000", "limit=" + "9" * 30]
)
def test_a_parameter_beyond_its_range_is_refused(admin: RunningAdmin, query: str) -> None:
    answer = admin.ask("GET", f"/queues/q/messages?{query}")
    assert answer.status == 422
    assert "is not allowed; allowed: a whole number from" in str(detail(answer))


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b"\xff", b'{"name": NaN}'])
def test_a_body_that_is_no_json_object_is_refused(admin: RunningAdmin, body: bytes) -> None:
    answer = admin.ask("POST", "/queues", body)
    assert answer.status == 400
    detail(answer)


def test_bodies_are_limited_and_must_be_json(admin: RunningAdmin, node: MemoryNode) -> None:
    large = orjson.dumps({"name": "q", "subscriptions": ["x" * BODY_BYTES_MAX]})
    assert admin.ask("POST", "/queues", large).status == 413
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert admin.ask("POST", "/queues", b'{"name": "q"}', form).status == 415
    assert node.definitions == {}


def test_an_unknown_path_and_a_wrong_method_are_problems_too(admin: RunningAdmin) -> None:
    assert detail(admin.ask("GET", "/nothing")) == "/nothing does not exist; GET / lists the paths"
    wrong = admin.ask("PUT", "/queues/q")
    assert wrong.status == 405
    assert {each.strip() for each in wrong.headers["allow"].split(",")} == {"DELETE", "GET", "HEAD", "PATCH"}
    detail(wrong)


def test_a_name_that_is_no_utf8_is_refused(admin: RunningAdmin) -> None:
    assert admin.ask("GET", "/queues/%ff").status == 400


def test_a_foreign_web_page_can_change_nothing(admin: RunningAdmin, node: MemoryNode) -> None:
    """The port has no accounts: a page in the operator's browser must not reach it, nor a name that resolves to it."""
    admin.ask("POST", "/queues", {"name": "q"})
    node.publish("q", b"x")
    assert admin.ask("POST", "/queues/q/purge", headers={"Origin": "https://evil.example"}).status == 403
    assert admin.ask("GET", "/queues", headers={"Host": "evil.example:8080"}).status == 421
    assert len(node.messages["q"]) == 1
    same = {"Origin": admin.url}
    assert admin.ask("POST", "/queues/q/purge", headers=same).status == 200


def test_health_answers_503_with_the_reasons(admin: RunningAdmin, node: MemoryNode) -> None:
    """Solace 9.8."""
    assert (admin.ask("GET", "/health/live").status, admin.ask("GET", "/health/ready").status) == (200, 200)
    node.reasons = ("the spool is full",)
    ready = admin.ask("GET", "/health/ready")
    assert (ready.status, ready.json()["reasons"]) == (503, ["the spool is full"])
    assert admin.ask("GET", "/health/live").status == 200
    node.live = False
    assert admin.ask("GET", "/health/live").status == 503


def test_durable_cursors_are_listed_and_forgotten(admin: RunningAdmin, node: MemoryNode) -> None:
    admin.ask("POST", "/queues", {"name": "q"})
    node.cursors = [cursor_view_of("a/b"), cursor_view_of("c")]
    listed = admin.ask("GET", "/queues/q/cursors").json()["cursors"]
    assert isinstance(listed, list)
    first = listed[0]
    assert first["name"] == "a/b"
    assert first["partitions"] == [{"number": 0, "low": 1, "acked": 3, "next_sequence": 9, "lag_bytes": 600}]

    assert admin.ask("DELETE", "/queues/q/cursors/a%2Fb").status == 204
    assert [each.name for each in node.cursors] == ["c"]
    assert detail(admin.ask("DELETE", "/queues/q/cursors/a%2Fb")) == "queue 'q' has no cursor 'a/b'"
    assert admin.ask("GET", "/queues/other/cursors").status == 404


def test_who_deletes_what_is_named_of_dots_deletes_nothing_else(admin: RunningAdmin, node: MemoryNode) -> None:
    """Browsers and proxies make `/queues/q/` of `/queues/q/cursors/..`, and go on to where that would lead."""
    admin.ask("POST", "/queues", {"name": "q"})
    answer = admin.ask("DELETE", "/queues/q/cursors/..")
    assert (answer.status, answer.json()["title"]) == (404, "Cursor not found")
    answer = admin.ask("DELETE", "/queues/q/")
    assert (answer.status, answer.json()["title"]) == (404, "Not found")
    assert list(node.definitions) == ["q"]


def test_a_reader_in_bulk_tells_of_its_batch(admin: RunningAdmin, node: MemoryNode) -> None:
    admin.ask("POST", "/queues", {"name": "q"})
    node.cursors = [cursor_view_of("a/b")]
    batch = {"job": "archive", "reference": "q/7", "rows_count": 5, "undecodable_count": 1, "duration_ms": 20}
    assert admin.ask("PUT", "/queues/q/cursors/a%2Fb/batch", batch).status == 204
    assert [(each.reference, each.rows_count) for each in node.batches] == [("q/7", 5)]
    assert admin.ask("PUT", "/queues/q/cursors/c/batch", batch).status == 404
    wrong = admin.ask("PUT", "/queues/q/cursors/a%2Fb/batch", {**batch, "rows_count": -1})
    assert (wrong.status, wrong.json()["field"]) == (422, "rows_count")
    assert admin.ask("PUT", "/queues/q/cursors/a%2Fb/batch", {**batch, "colour": 1}).json()["field"] == "colour"


def test_the_spool_shows_its_incarnation(admin: RunningAdmin) -> None:
    """Sequences mean something within one incarnation only, so whoever stores some has to know it."""
    assert admin.ask("GET", "/spool").json()["incarnation"] == "00000000000000ff"


def test_a_replay_begins_at_the_requested_place(admin: RunningAdmin, node: MemoryNode) -> None:
    admin.ask("POST", "/queues", {"name": "q", "retention_size_mb": 1})
    bodies = [
        {"from": "beginning"},
        {"from": "17", "to": 20, "partition": 0},
        {"from": "2026-01-31T12:00:00Z"},
        {"from": "2026-01-31T12:00:00"},
    ]
    for body in bodies:
        assert admin.ask("POST", "/queues/q/replay", body).json() == {"replayed_count": 7}
    noon = ReplayStart(since_ms=1_769_860_800_000)
    assert node.replays == [
        (ReplayStart(), SEQUENCE_MAX, None),
        (ReplayStart(first=17), 20, 0),
        (noon, SEQUENCE_MAX, None),
        (noon, SEQUENCE_MAX, None),
    ]


@pytest.mark.parametrize("body", [{}, {"from": "yesterday"}, {"from": "0"}, {"from": "1", "to": -1}, {"form": "1"}])
def test_a_replay_from_nowhere_is_refused_with_what_would_do(admin: RunningAdmin, body: object) -> None:
    admin.ask("POST", "/queues", {"name": "q", "retention_size_mb": 1})
    assert admin.ask("POST", "/queues/q/replay", body).status == 422


def test_a_queue_that_keeps_nothing_refuses_a_replay(admin: RunningAdmin) -> None:
    admin.ask("POST", "/queues", {"name": "q"})
    assert detail(admin.ask("POST", "/queues/q/replay", {"from": "beginning"})) == "'q' keeps nothing"
