"""`GET` and `POST /definitions`: what operators created as a document, what it would change, and who may change it."""

import asyncio
from collections.abc import Iterator, Mapping

import orjson
import pytest
import yaml

from sluicegate.actors.runtime.clock import SystemClock
from sluicegate.actors.runtime.events import Events
from sluicegate.gateway.views.clients.accounts import UserView
from sluicegate.gateway.views.errors import Refused
from sluicegate.messaging.observability.events import SYSTEM_ADMIN_COMMAND
from support.operations.admin_accounts import ask, basic, configured
from support.operations.memory_node import MemoryNode
from support.operations.running_admin import Answer, RunningAdmin, running_admin

YAML = {"Content-Type": "application/yaml"}


def document(**by_kind: object) -> dict[str, object]:
    return {"version": 1, "message_vpns": {"default": by_kind}}


def outcomes(answer: Answer) -> list[tuple[str, str]]:
    assert answer.status == 200, answer.body
    objects = answer.json()["objects"]
    assert isinstance(objects, list)
    return [(each["name"], each["outcome"]) for each in objects]


@pytest.fixture(autouse=True)
def only_users(node: MemoryNode) -> None:
    node.points.clear()
    node.made_bridges.clear()


@pytest.fixture
def events() -> Events:
    return Events(SystemClock())


@pytest.fixture
def guarded(node: MemoryNode, events: Events) -> Iterator[RunningAdmin]:
    with running_admin(node, admin=configured(), events=events) as running:
        yield running


def test_a_dry_run_says_what_would_become_of_each_object_and_changes_nothing(
    admin: RunningAdmin, node: MemoryNode
) -> None:
    admin.ask("POST", "/queues", {"name": "same"})
    admin.ask("POST", "/queues", {"name": "other", "max_ttl": 1})
    admin.ask("POST", "/queues", {"name": "unlisted"})
    wanted = document(
        queues=[{"name": "new"}, {"name": "same"}, {"name": "other", "max_ttl": 2}], users=[{"name": "ada"}]
    )
    answer = admin.ask("POST", "/definitions?dry_run=true", wanted)
    assert outcomes(answer) == [
        ("new", "created"),
        ("other", "changed"),
        ("ada", "refused"),
        ("same", "unchanged"),
        ("unlisted", "left"),
    ]
    view = answer.json()
    assert [view[key] for key in ("dry_run", "changes_count", "made_count", "time_is_up")] == [True, 3, 0, False]
    objects = view["objects"]
    assert isinstance(objects, list)
    assert (objects[1]["before"], objects[1]["fields"]) == ({"max_ttl": 1}, {"max_ttl": 2})
    assert "has no password" in objects[2]["reason"]
    assert sorted(node.definitions) == ["other", "same", "unlisted"]
    assert outcomes(admin.ask("POST", "/definitions?dry_run=true&prune=true", wanted))[3:] == [
        ("unlisted", "deleted"),
        ("same", "unchanged"),
    ]


def test_nothing_is_changed_while_an_object_is_known_to_be_refused(admin: RunningAdmin, node: MemoryNode) -> None:
    wanted = document(queues=[{"name": "q"}], users=[{"name": "ada"}])
    answer = admin.ask("POST", "/definitions", wanted)
    assert outcomes(answer) == [("q", "pending"), ("ada", "refused")]
    assert node.definitions == {}


def test_the_first_refusal_of_the_node_ends_it_and_applying_again_goes_on(
    admin: RunningAdmin, node: MemoryNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = document(queues=[{"name": "a"}, {"name": "b"}, {"name": "c"}])
    create = node.create_queue

    async def refusing(asked: Mapping[str, object], *, durable: bool | None = None) -> object:
        if asked["name"] == "b":
            raise Refused("there is no room")
        return await create(asked, durable=durable)

    monkeypatch.setattr(node, "create_queue", refusing)
    answer = admin.ask("POST", "/definitions", wanted)
    assert outcomes(answer) == [("a", "created"), ("b", "refused"), ("c", "pending")]
    assert b"there is no room" in answer.body
    monkeypatch.setattr(node, "create_queue", create)
    answer = admin.ask("POST", "/definitions", wanted)
    assert outcomes(answer) == [("b", "created"), ("c", "created"), ("a", "unchanged")]


def test_a_document_that_takes_long_is_applied_by_several_requests(
    admin: RunningAdmin, node: MemoryNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluicegate.gateway.admin.rest.node.definitions.APPLY_S", -1.0)
    answer = admin.ask("POST", "/definitions", document(queues=[{"name": "a"}]))
    assert (outcomes(answer), answer.json()["time_is_up"]) == ([("a", "pending")], True)
    assert node.definitions == {}


@pytest.mark.parametrize(
    ("body", "pointer", "word"),
    [
        (b"{", "", "the body is not JSON"),
        (b"[]", "", "it is not a mapping"),
        (b'{"version":1}', "", "allowed: version and message_vpns"),
        (b'{"version":2,"message_vpns":{}}', "/version", "allowed: 1"),
        (
            b'{"version":1,"message_vpns":{"a/b":{"queues":[{"name":"q","max_ttl":-1}]}}}',
            "/message_vpns/a~1b/queues/0/max_ttl",
            "-1 is not allowed; allowed: a whole number",
        ),
        (
            b'{"version":1,"message_vpns":{"default":{"colours":[]}}}',
            "/message_vpns/default/colours",
            "allowed: settings, queue_templates, queues",
        ),
        (
            '{"version":1,"message_vpns":{"default":{"queues":[{"name":"q","²":1}]}}}'.encode(),
            "/message_vpns/default/queues/0/²",
            "²",
        ),
        (b'{"version":1,"a":[' + b"1," * 1_000_000 + b"1]}", "", "more than 1000000 values"),
        (
            b'{"version":1,"message_vpns":{"default":{"queues":[' + b"1," * 100_000 + b"1]}}}",
            "/message_vpns/default/queues",
            "allowed: 100000",
        ),
        (b'{"version":1,"message_vpns":' + b'{"a":' * 500 + b"1" + b"}" * 501, "/message_vpns/a/a", "no such kind"),
    ],
)
def test_a_wrong_document_is_refused_with_the_pointer_to_what_is_wrong(
    admin: RunningAdmin, body: bytes, pointer: str, word: str
) -> None:
    answer = admin.ask("POST", "/definitions", body)
    assert (answer.status, answer.headers["content-type"]) == (400, "application/problem+json")
    [mistake] = orjson.loads(answer.body)["mistakes"]
    assert mistake["path"] == pointer
    assert word in mistake["detail"]


def test_yaml_is_taken_as_well_and_its_mistakes_have_lines(admin: RunningAdmin, node: MemoryNode) -> None:
    text = b"version: 1\nmessage_vpns:\n  default:\n    queues:\n      - name: a\n        max_ttl: -1\n"
    answer = admin.ask("POST", "/definitions", text, YAML)
    [mistake] = orjson.loads(answer.body)["mistakes"]
    assert (answer.status, mistake["line"], mistake["column"]) == (400, 6, 18)
    halves = (b'version: 1\nmessage_vpns: {"\\uD800": {}}', b'version: 1\nmessage_vpns: {default: {"\\uD800": []}}')
    for broken in (b"version: [", b"version: \xff", *halves):
        assert admin.ask("POST", "/definitions", broken, YAML).status == 400
    assert outcomes(admin.ask("POST", "/definitions", text.replace(b"-1", b"1"), YAML)) == [("a", "created")]
    exported = admin.ask("GET", "/definitions?format=yaml")
    assert exported.headers["content-type"].startswith("application/yaml")
    assert yaml.safe_load(exported.body) == admin.ask("GET", "/definitions").json()
    assert outcomes(admin.ask("POST", "/definitions", exported.body, YAML)) == [("a", "unchanged")]
    assert list(node.definitions) == ["a"]


def test_bodies_are_bounded_and_of_two_media_types(admin: RunningAdmin) -> None:
    assert admin.ask("POST", "/definitions", b"#" * ((1 << 20) + 1), YAML).status == 413
    assert admin.ask("POST", "/definitions", b"{}", {"Content-Type": "application/xml"}).status == 415
    large = document(queues=[{"name": f"q{number}", "subscriptions": ["x" * 200]} for number in range(6000)])
    assert admin.ask("POST", "/definitions?dry_run=true", large).status == 200  # more than other bodies may have


def test_an_export_that_could_not_be_applied_is_refused(admin: RunningAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("YAML_BYTES_MAX", "JSON_BYTES_MAX"):
        monkeypatch.setattr(f"sluicegate.gateway.admin.rest.node.definitions.{name}", 10)
    for form, word in (("json", b"one message VPN"), ("yaml", b"take JSON")):
        answer = admin.ask("GET", f"/definitions?format={form}")
        assert (answer.status, word in answer.body) == (409, True)


def test_parameters_and_message_vpns_are_checked(admin: RunningAdmin) -> None:
    assert admin.ask("GET", "/definitions?vpn=nowhere").status == 404
    assert admin.ask("GET", "/definitions?vpn=").status == 422
    assert admin.ask("GET", "/definitions?format=xml").status == 422
    assert admin.ask("POST", "/definitions?dry_run=yes", document()).status == 422
    wanted = {"version": 1, "message_vpns": {"nowhere": {"queues": []}}}
    assert outcomes(admin.ask("POST", "/definitions", wanted)) == [("nowhere", "refused")]


def test_accounts_need_the_levels_that_the_objects_need(guarded: RunningAdmin, node: MemoryNode) -> None:
    """A document is no way around them: the bridge of a writer and the settings of a tenant are refused."""
    assert ask(guarded, "reader", "GET", "/definitions").status == 200
    assert ask(guarded, "tenant", "GET", "/definitions").status == 403
    assert ask(guarded, "tenant", "GET", "/definitions?vpn=default").status == 200
    queue = document(queues=[{"name": "q"}])
    assert ask(guarded, "reader", "POST", "/definitions?dry_run=true", queue).status == 403
    settings = {"version": 1, "message_vpns": {"default": {}, "sales": {"settings": {}}}}
    assert ask(guarded, "tenant", "POST", "/definitions", settings).status == 403
    assert outcomes(ask(guarded, "tenant", "POST", "/definitions", queue)) == [("q", "created")]
    consumer = {"name": "one", "remote_host": "web", "authentication_scheme": "http-header"}
    header = {"authentication_http_header_name": "X", "authentication_http_header_value_file": "/run/secrets/root"}
    for by_kind in (
        {"bridges": [{"name": "b", "remote_url": "mqtt://far:1883"}]},
        {"rest_delivery_points": [{"name": "b", "rest_consumers": [{**consumer, **header}]}]},
    ):
        answer = ask(guarded, "writer", "POST", "/definitions", document(**by_kind))
        assert outcomes(answer) == [("b", "refused")]
        assert b"needs the access level admin" in answer.body
        assert outcomes(ask(guarded, "root", "POST", "/definitions?dry_run=true", document(**by_kind))) == [
            ("b", "created")
        ]
    assert node.points == {}


def test_each_change_of_a_document_is_audited_without_secrets(guarded: RunningAdmin, events: Events) -> None:
    wanted = document(queues=[{"name": "q"}], users=[{"name": "ada", "password": "the-secret"}])
    ask(guarded, "writer", "POST", "/definitions?dry_run=true", wanted)
    answer = guarded.ask("POST", "/definitions", wanted, basic("writer", "writer-word"))
    told = [event for _, event in events.record.recent(0, 100) if event.kind is SYSTEM_ADMIN_COMMAND]
    details = [event.details or {} for event in told]
    assert [(each["account"], each.get("object"), each.get("outcome")) for each in details] == [
        ("writer", None, None),
        ("writer", "queue q", "created"),
        ("writer", "user ada", "created"),
        ("writer", None, None),
    ]
    assert b"the-secret" not in answer.body
    assert "the-secret" not in repr([event.text() for event in told])


def test_of_many_mistakes_the_first_hundred_are_told(admin: RunningAdmin) -> None:
    answer = admin.ask("POST", "/definitions", document(queues=[{}] * 50_000))
    assert (answer.status, len(orjson.loads(answer.body)["mistakes"])) == (400, 100)


def test_a_document_is_read_for_those_only_who_may_change_what_it_is_about(guarded: RunningAdmin) -> None:
    """Else whoever has an account could have the gateway work for seconds."""
    wrong = {"version": 1, "message_vpns": {"sales": {"queues": [{}]}}}
    assert ask(guarded, "tenant", "POST", "/definitions", wrong).status == 403
    assert ask(guarded, "reader", "POST", "/definitions", {"version": 2}).status == 403
    assert ask(guarded, "writer", "POST", "/definitions", wrong).status == 400


def test_one_document_is_applied_at_a_time(
    admin: RunningAdmin, node: MemoryNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one is refused, and can be applied afterwards."""
    second: list[Answer] = []
    create = node.create_user

    async def create_slowly(asked: Mapping[str, object]) -> UserView:
        second.append(await asyncio.to_thread(admin.ask, "POST", "/definitions", document()))
        return await create(asked)

    monkeypatch.setattr(node, "create_user", create_slowly)
    users = document(users=[{"name": "ada", "password": "engine"}])
    assert outcomes(admin.ask("POST", "/definitions", users)) == [("ada", "created")]
    [refused] = second
    assert (refused.status, b"another document" in refused.body) == (409, True)
    assert admin.ask("POST", "/definitions", document()).status == 200


def test_a_created_object_is_told_with_the_fields_of_the_document_and_without_secrets(admin: RunningAdmin) -> None:
    given = document(queues=[{"name": "q", "max_ttl": 5}], users=[{"name": "ada", "password": "engine"}])
    for path in ("/definitions?dry_run=true", "/definitions"):
        objects = orjson.loads(admin.ask("POST", path, given).body)["objects"]
        told = {each["name"]: each["fields"] for each in objects if each["outcome"] == "created"}
        assert told == {"q": {"name": "q", "max_ttl": 5}, "ada": {"name": "ada"}}
