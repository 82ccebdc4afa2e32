"""Changes on the condition that nobody else was first: `ETag` and `If-Match`, RFC 9110, 8.8.3 and 13.1.1."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import Final
from urllib.parse import urlsplit

import orjson
import pytest

from support.operations.running_admin import ANSWER_S, Answer, RunningAdmin

QUEUE: Final = "/queues/q"
SEMP_QUEUE: Final = "/SEMP/v2/config/msgVpns/default/queues/q"


@pytest.fixture
def queue(admin: RunningAdmin) -> RunningAdmin:
    assert admin.ask("POST", "/queues", {"name": "q"}).status == 201
    return admin


def tag_of(answer: Answer) -> str:
    return {name.lower(): value for name, value in answer.headers.items()}["etag"]


def test_of_two_operators_who_change_what_both_have_read_one_is_told(queue: RunningAdmin) -> None:
    read = tag_of(queue.ask("GET", QUEUE))
    first = queue.ask("PATCH", QUEUE, {"max_ttl": 5}, {"If-Match": read})
    assert first.status == 200
    second = queue.ask("PATCH", QUEUE, {"max_bind_count": 3}, {"If-Match": read})
    assert second.status == 412
    assert b"have been changed meanwhile" in second.body
    assert tag_of(second) == tag_of(first) == tag_of(queue.ask("GET", QUEUE)) != read
    assert b'"max_bind_count":3,' not in queue.ask("GET", QUEUE).body
    assert queue.ask("PATCH", QUEUE, {"max_bind_count": 3}, {"If-Match": tag_of(second)}).status == 200


def test_of_changes_at_a_time_one_is_made(queue: RunningAdmin) -> None:
    read = tag_of(queue.ask("GET", QUEUE))

    def changes(ttl: int) -> int:
        return queue.ask("PATCH", QUEUE, {"max_ttl": ttl}, {"If-Match": read}).status

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(changes, range(1, 9)))
    assert sorted(answers) == [200, *[412] * 7]


def test_a_change_without_a_condition_is_made(queue: RunningAdmin) -> None:
    assert queue.ask("PATCH", QUEUE, {"max_ttl": 5}).status == 200
    assert queue.ask("PATCH", QUEUE, {"max_ttl": 6}, {"If-Match": "*"}).status == 200
    assert (
        queue.ask("PATCH", QUEUE, {"max_ttl": 7}, {"If-Match": f'"x", {tag_of(queue.ask("GET", QUEUE))}'}).status == 200
    )


def test_what_was_changed_is_not_deleted(queue: RunningAdmin) -> None:
    read = tag_of(queue.ask("GET", QUEUE))
    queue.ask("PATCH", QUEUE, {"max_ttl": 5})
    assert queue.ask("DELETE", QUEUE, headers={"If-Match": read}).status == 412
    assert queue.ask("DELETE", QUEUE, headers={"If-Match": tag_of(queue.ask("GET", QUEUE))}).status == 204
    assert queue.ask("DELETE", QUEUE, headers={"If-Match": read}).status == 404


def test_semp_has_tags_as_well(queue: RunningAdmin) -> None:
    read = tag_of(queue.ask("GET", SEMP_QUEUE))
    assert tag_of(queue.ask("GET", f"{SEMP_QUEUE}?select=queueName")) == read
    first = queue.ask("PATCH", SEMP_QUEUE, {"maxTtl": 5}, {"If-Match": read})
    assert first.status == 200
    assert tag_of(first) != read
    second = queue.ask("PATCH", SEMP_QUEUE, {"maxTtl": 6}, {"If-Match": read})
    assert second.status == 412
    assert b"have been changed meanwhile" in second.body
    assert queue.ask("DELETE", SEMP_QUEUE, headers={"If-Match": tag_of(first)}).status == 200


@pytest.mark.parametrize(
    ("path", "made", "change"),
    [
        ("/queue-templates", {"name": "t", "queue_name_filter": "eu/>"}, {"max_ttl": 5}),
        ("/users", {"name": "u", "password": "a long secret"}, {"enabled": False}),
        ("/client-profiles", {"name": "p"}, {"max_connection_count_per_client_username": 7}),
        ("/acl-profiles", {"name": "p"}, {"publish_topic_default_action": "allow"}),
        ("/links", {"name": "l", "url": "flow://a"}, {"enabled": False}),
        ("/message-vpns", {"name": "v"}, {"enabled": False}),
        ("/message-vpns", {"name": "v"}, {"allow_anonymous": True}),
        ("/message-vpns", {"name": "v"}, {"max_connection_count": 7}),
    ],
)
def test_other_objects_have_tags(
    admin: RunningAdmin, path: str, made: dict[str, object], change: dict[str, object]
) -> None:
    created = admin.ask("POST", path, made)
    assert created.status == 201, created.body
    where = f"{path}/{made['name']}"
    read = tag_of(admin.ask("GET", where))
    assert tag_of(admin.ask("GET", where)) == read
    assert admin.ask("PATCH", where, change, {"If-Match": read}).status == 200
    assert admin.ask("PATCH", where, change, {"If-Match": read}).status == 412


@pytest.mark.parametrize(
    ("made", "whole", "change", "method", "part", "body", "kept"),
    [
        (
            ("/queues", {"name": "q"}),
            QUEUE,
            {"subscriptions": ["one"]},
            "PUT",
            f"{QUEUE}/subscriptions/other",
            None,
            ["one", "other"],
        ),
        (
            ("/queues", {"name": "q"}),
            QUEUE,
            {"subscriptions": ["one"]},
            "POST",
            f"{SEMP_QUEUE}/subscriptions",
            {"subscriptionTopic": "other"},
            ["one", "other"],
        ),
        (
            ("/acl-profiles", {"name": "p"}),
            "/acl-profiles/p",
            {"client_connect_exceptions": ["10.0.0.0/8"]},
            "POST",
            "/SEMP/v2/config/msgVpns/default/aclProfiles/p/clientConnectExceptions",
            {"clientConnectExceptionAddress": "192.168.0.0/16"},
            ["10.0.0.0/8", "192.168.0.0/16"],
        ),
    ],
)
def test_a_change_of_a_part_waits_for_that_of_the_whole(
    admin: RunningAdmin,
    made: tuple[str, object],
    whole: str,
    change: object,
    method: str,
    part: str,
    body: object,
    kept: list[str],
) -> None:
    """So a change whose tag has been compared does not undo one of a part that nobody who read the tag has seen."""
    assert admin.ask("POST", *made).status == 201
    read = tag_of(admin.ask("GET", whole))
    with _change_that_waits_for_its_body(admin, whole, change, read) as finish, ThreadPoolExecutor(1) as pool:
        changing = pool.submit(admin.ask, method, part, body)
        for _ in range(20):  # time enough for a change that does not wait
            if tag_of(admin.ask("GET", whole)) != read:
                break
        assert finish() == 200
        assert changing.result().status in (200, 204), changing.result().body
    text = admin.ask("GET", whole).body.decode()
    assert [each for each in kept if each not in text] == []


@contextmanager
def _change_that_waits_for_its_body(
    admin: RunningAdmin, path: str, change: object, tag: str
) -> Iterator[Callable[[], int]]:
    """Have a PATCH compared with a tag; yield what sends its body, and returns the status of the answer."""
    text = orjson.dumps(change)
    with closing(HTTPConnection(urlsplit(admin.url).netloc, timeout=ANSWER_S)) as connection:
        connection.putrequest("PATCH", path)
        headers = {"If-Match": tag, "Content-Type": "application/json", "Content-Length": str(len(text))}
        for name, value in {**headers, "Expect": "100-continue"}.items():
            connection.putheader(name, value)
        connection.endheaders()
        assert connection.sock.recv(4096).startswith(b"HTTP/1.1 100 "), "it is asked for the body behind the tag"

        def finish() -> int:
            connection.send(text)
            return connection.getresponse().status

        yield finish
