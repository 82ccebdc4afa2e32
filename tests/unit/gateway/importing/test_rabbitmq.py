"""What becomes of RabbitMQ's definitions: every value is in the report, and what is written is valid."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis.strategies import lists, sampled_from

from sluicegate.gateway.importing.imported import Imported
from sluicegate.gateway.importing.rabbitmq import import_rabbitmq
from sluicegate.gateway.importing.rabbitmq.access import topic_of_pattern
from sluicegate.gateway.importing.rabbitmq.routing import NotSayable, key_matches, subscription_of
from sluicegate.gateway.importing.report import ImportFailed, Part
from sluicegate.messaging.topics.syntax import Syntax, matches, parse_filter
from support.importing.sources import loaded, notes

HASH = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"  # of test12, in RabbitMQ's page on passwords
EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


def imported(folder: Path, **definitions: object) -> Imported:
    text = json.dumps({"rabbitmq_version": "3.13.0", **definitions}, indent=1)
    return import_rabbitmq("defs.json", text, node="here", folder=str(folder))


def user(name: str, **more: object) -> dict[str, object]:
    return {"name": name, "password_hash": HASH, "hashing_algorithm": "rabbit_password_hashing_sha256", **more}


def queue(name: str, **arguments: object) -> dict[str, object]:
    given = {key.replace("_", "-"): value for key, value in arguments.items()}
    return {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": given}


def binding(
    source: str, destination: str, key: str = "", kind: str = "queue", arguments: dict[str, object] | None = None
) -> dict[str, object]:
    return {
        "source": source,
        "vhost": "/",
        "destination": destination,
        "destination_type": kind,
        "routing_key": key,
        "arguments": arguments or {},
    }


def exchange(name: str, kind: str) -> dict[str, object]:
    return {"name": name, "vhost": "/", "type": kind, "durable": True, "auto_delete": False, "arguments": {}}


def attributes(made: Imported, folder: Path, name: str) -> dict[str, Any]:
    config = loaded(made, folder)
    found = next(each for each in config.queues.declared if each.config.name == name)
    return {**found.config.to_dict(), "subscriptions": sorted(found.subscriptions)}


WHOLE = {
    "rabbit_version": "3.13.0",
    "vhosts": [{"name": "/"}, {"name": "acme/eu", "limits": [], "metadata": {"description": "x", "tags": []}}],
    "users": [
        user("ann", tags=["administrator"], limits={"max-connections": 3, "max-channels": 9}), user("bob", tags=""),
    ],
    "permissions": [
        {"user": "ann", "vhost": "/", **EVERYTHING},
        {"user": "bob", "vhost": "/", "configure": "^$", "write": "^orders$", "read": "^bob"},
        {"user": "ann", "vhost": "acme/eu", **EVERYTHING},
        {"user": "gone", "vhost": "/", **EVERYTHING},
    ],
    "topic_permissions": [
        {"user": "bob", "vhost": "/", "exchange": "amq.topic", "write": "^a\\.{username}\\..*", "read": "b|c"}
    ],
    "parameters": [
        {"component": "vhost-limits", "vhost": "/", "name": "l", "value": {"max-connections": 5, "max-queues": -1}},
        {"component": "federation-upstream", "vhost": "/", "name": "f", "value": {"uri": "amqp://x"}},
        {"component": "operator_policy", "vhost": "/", "name": "o",
         "value": {"pattern": "^", "apply-to": "queues", "priority": 0, "definition": {"max-length-bytes": 9}}},
    ],
    "global_parameters": [{"name": "cluster_name", "value": "rabbit@x"}],
    "policies": [
        {"vhost": "/", "name": "p", "pattern": "^x", "apply-to": "all", "definition": {"ha-mode": "all"}},
        {"vhost": "/", "name": "q", "pattern": "bobs", "definition": {"message-ttl": 5, "odd": {"deep": [1]}}},
    ],
    "queues": [
        queue("bobs", x_queue_type="quorum", x_message_ttl=7, x_dead_letter_exchange="dlx", x_strange=[1, {"y": 2}]),
        queue("all", x_max_priority=200),
        {**queue("elsewhere"), "vhost": "acme/eu", "durable": False, "auto_delete": True, "type": "classic"},
        queue("bad?name", x_message_ttl=1),
    ],
    "exchanges": [
        exchange("orders", "topic"), exchange("dlx", "fanout"), exchange("h", "headers"), exchange("c", "x-hash"),
    ],
    "bindings": [
        binding("orders", "bobs", "eu.*"), binding("orders", "bobs", "#.x"), binding("dlx", "all"), binding("c", "all"),
        binding("h", "all", arguments={"x-match": "any", "n": 1}), binding("orders", "dlx", "a.#", "exchange"),
        binding("", "all", "all"), binding("orders", "nowhere", "k"),
    ],
    "made_up": {"key": [1, {"other": "value"}]},
}  # fmt: skip


def test_every_value_is_in_the_report(tmp_path: Path) -> None:
    made = imported(tmp_path, **WHOLE)
    loaded(made, tmp_path)
    said = "\n".join(f"{note.setting.place} {note.text}" for note in made.report.notes)
    for word in (
        "max-channels",
        "x-strange",
        "odd",
        "made_up.key.0",
        "made_up.key.1.other",
        "bad?name",
        "gone",
        "cluster",
    ):
        assert word in said
    assert [each for each in made.report.notes if not each.setting.where and each.setting.text != "protocols"] == []


@given(left_out=lists(sampled_from(sorted(WHOLE)), unique=True, max_size=5))
def test_definitions_may_lack_parts(left_out: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Of one virtual host, or without users, as `rabbitmqadmin` can export them."""
    folder = tmp_path_factory.mktemp("part")
    parts: dict[str, Any] = {name: value for name, value in WHOLE.items() if name not in left_out}
    if "vhosts" in left_out:
        return
    loaded(imported(folder, **parts), folder)


def test_virtual_hosts_are_message_vpns_with_the_users_that_may_enter(tmp_path: Path) -> None:
    config = loaded(imported(tmp_path, **WHOLE), tmp_path)
    assert [*config.message_vpns()] == ["default", "acme-eu"]
    assert [each.name for each in config.authentication.users] == ["ann", "bob"]
    assert [each.name for each in config.vpns["acme-eu"].authentication.users] == ["ann"]
    assert config.authentication.users[0].secret() == f"RABBITMQ-SHA-256${HASH}"
    assert [(each.name, each.global_access_level) for each in config.admin.users] == [("ann", "admin")]
    assert config.vpn.max_connection_count == 5
    assert config.authentication.client_profiles[0].max_connection_count_per_client_username == 3


def test_rights_are_those_of_the_exchanges_that_match(tmp_path: Path) -> None:
    config = loaded(imported(tmp_path, **WHOLE), tmp_path)
    bob = config.authentication.users[1]
    profile = next(each for each in config.authentication.acl_profiles if each.name == bob.acl_profile).profile()
    publish = profile.publish.of_client("bob", "c")
    topics = ("orders/eu", "orders", "dlx", "a/bob/1", "$queue/all", "x")
    assert [each for each in topics if publish.allows_topic(each)] == ["orders/eu", "orders"]
    client = next(each for each in config.authentication.client_profiles if each.name == bob.client_profile)
    assert client.allow_guaranteed_endpoint_create_enabled is False
    queues = {each.config.name: each.config for each in config.queues.declared}
    assert (queues["bobs"].permission, queues["bobs"].owner) == ("consume", "")
    assert (queues["all"].permission, queues["all"].owner) == ("no-access", "ann")


@pytest.mark.parametrize("left_out", [["users"], ["users", "permissions"], ["permissions"]])
def test_queues_of_which_nobody_is_known_to_read_are_closed(left_out: list[str], tmp_path: Path) -> None:
    """An account that an operator adds later would read what few or none may read in RabbitMQ."""
    made = imported(tmp_path, **{name: value for name, value in WHOLE.items() if name not in left_out})
    config = loaded(made, tmp_path)
    queues = [each.config for each in config.queues.declared]
    assert queues
    assert {(each.permission, each.owner) for each in queues} == {("no-access", "")}
    assert "no account here may read it in RabbitMQ: it is closed" in str(notes(made, Part.NOT_TAKEN))


def test_what_is_not_restricted_stays_allowed(tmp_path: Path) -> None:
    """A profile that is written disallows by default; one named `default` would be that of all others."""
    restricted = {"configure": ".*", "write": "^$", "read": ".*"}
    made = imported(
        tmp_path,
        users=[user("default"), user("guest")],
        permissions=[{"user": "default", "vhost": "/", **restricted}, {"user": "guest", "vhost": "/", **EVERYTHING}],
    )
    config = loaded(made, tmp_path)
    profiles = {each.name: each.profile() for each in config.authentication.acl_profiles}
    names = [each.acl_profile for each in config.authentication.users]
    assert "default" not in names
    default, guest = (profiles[each] for each in names)
    assert not default.publish.allows_topic("x")
    assert default.subscribe.allows_topic("x")
    assert guest.publish.allows_all
    assert guest.subscribe.allows_all
    assert guest.connect.allows("127.0.0.1")
    assert not guest.connect.allows("192.0.2.1")


def test_topic_permissions_are_exceptions_of_the_profile(tmp_path: Path) -> None:
    made = imported(
        tmp_path,
        users=[user("bob")],
        permissions=[{"user": "bob", "vhost": "/", **EVERYTHING}],
        topic_permissions=[
            {"user": "bob", "vhost": "/", "exchange": "amq.topic", "write": r"^a\.{username}\..*", "read": "b|c"}
        ],
    )
    config = loaded(made, tmp_path)
    profile = config.authentication.acl_profiles[0].profile()
    publish, subscribe = profile.publish.of_client("bob", "c"), profile.subscribe.of_client("bob", "c")
    assert [each for each in ("a/bob/x", "a/ann/x", "z") if publish.allows_topic(each)] == ["a/bob/x"]
    assert not subscribe.allows_topic("b")
    assert "no topic is allowed" in "".join(notes(made, Part.NOT_TAKEN).values())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"x_message_ttl": 60_000}, {"max_ttl": 60, "respect_ttl_enabled": True}),
        ({"x_message_ttl": 1}, {"max_ttl": 1}),
        ({"x_max_length_bytes": 3_000_000}, {"max_msg_spool_usage": 3}),
        ({"x_max_length": 1}, {"max_msg_spool_usage": 0}),
        ({"x_max_length": 1, "x_overflow": "reject-publish"}, {"max_msg_spool_usage": 5000}),
        ({"x_single_active_consumer": True}, {"access_type": "exclusive"}),
        ({}, {"access_type": "non-exclusive", "dead_msg_queue": "", "max_redelivery_count": 0}),
        ({"x_max_priority": 10}, {"respect_msg_priority_enabled": True}),
        ({"x_delivery_limit": 5, "x_queue_type": "quorum"}, {"max_redelivery_count": 5}),
        ({"x_expires": 1_800_000}, {"expires_unbound_s": 1800}),
        ({"x_queue_type": "stream", "x_max_age": "7D"}, {"retention_time_s": 604_800}),
        ({"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "dead"}, {"dead_msg_queue": "dead"}),
        ({"x_dead_letter_exchange": "dlx"}, {"dead_msg_queue": "dead"}),
        ({"x_consumer_timeout": 5000}, {"consumer_ack_timeout_ms": 5000}),
    ],
)
def test_arguments_become_attributes(arguments: dict[str, object], expected: dict[str, object], tmp_path: Path) -> None:
    made = imported(
        tmp_path,
        queues=[queue("q", **arguments), queue("dead")],
        exchanges=[exchange("dlx", "fanout")],
        bindings=[binding("dlx", "dead")],
    )
    assert expected.items() <= attributes(made, tmp_path, "q").items()


def test_quorum_queues_of_rabbitmq_4_have_a_limit_of_their_own(tmp_path: Path) -> None:
    made = imported(tmp_path, rabbitmq_version="4.0.2", queues=[queue("q", x_queue_type="quorum")])
    assert attributes(made, tmp_path, "q")["max_redelivery_count"] == 20


def test_the_policy_of_the_highest_priority_applies_and_the_smaller_number_counts(tmp_path: Path) -> None:
    policies = [
        {"vhost": "/", "name": "a", "pattern": "^q", "priority": 1, "apply-to": "queues",
         "definition": {"message-ttl": 9000, "delivery-limit": 4}},
        {"vhost": "/", "name": "b", "pattern": ".*", "priority": 0, "definition": {"expires": 1000}},
        {"vhost": "/", "name": "c", "pattern": "q", "priority": 9, "apply-to": "exchanges", "definition": {"x": 1}},
    ]  # fmt: skip
    made = imported(tmp_path, queues=[queue("q1", x_message_ttl=20_000)], policies=policies)
    found = attributes(made, tmp_path, "q1")
    assert (found["max_ttl"], found["max_redelivery_count"], found["expires_unbound_s"]) == (9, 4, 0)


def test_retry_by_dead_letters_in_a_circle_is_reported(tmp_path: Path) -> None:
    to = {"x_dead_letter_exchange": "", "x_message_ttl": 5000}
    made = imported(
        tmp_path,
        queues=[
            queue("work", **to, x_dead_letter_routing_key="wait"),
            queue("wait", **to, x_dead_letter_routing_key="work"),
        ],
    )
    assert "redelivery_delay" in notes(made, Part.DIFFERS)["queue 'work'"]


def test_bindings_become_subscriptions_and_composites(tmp_path: Path) -> None:
    made = imported(
        tmp_path,
        queues=[queue("q"), queue("r")],
        exchanges=[
            exchange("t", "topic"), exchange("d", "direct"), exchange("f", "fanout"), exchange("h", "headers"),
            exchange("u", "topic"),
        ],
        bindings=[
            binding("amq.topic", "q", "sensors.*.#"), binding("t", "q", "a.*"), binding("d", "q", "k.l"),
            binding("f", "q"), binding("f", "r"), binding("h", "r", arguments={"x-match": "all", "eu": True, "n": 1}),
            binding("t", "f", "log.#", "exchange"), binding("f", "u", "", "exchange"),
        ],
    )  # fmt: skip
    assert attributes(made, tmp_path, "q")["subscriptions"] == ["d/k/l", "sensors/+/#", "t/a/+"]
    composites = {
        each["name"]: each["forward_to"] for each in made.configuration["virtual_destinations"]["composite_topics"]
    }
    assert composites == {
        "f": [{"queue": "q"}, {"queue": "r"}],
        "h": [{"queue": "r", "selector": "eu = TRUE AND n = 1"}],
        "t/log/>": [{"topic": "f"}],
    }
    assert "routing key for another exchange" in notes(made, Part.NOT_TAKEN)["binding 'f' -> 'u' with ''"]


WORDS = lists(sampled_from(["a", "b", "*", "#"]), min_size=1, max_size=4)


@given(pattern=WORDS, key=lists(sampled_from(["a", "b", "c"]), min_size=1, max_size=5))
def test_a_subscription_matches_what_the_binding_matches(pattern: list[str], key: list[str]) -> None:
    try:
        topic = subscription_of("amq.topic", "topic", ".".join(pattern))
    except NotSayable:
        assert "#" in pattern[:-1]
        return
    assert matches(parse_filter(topic, Syntax.MQTT), "/".join(key)) == key_matches(
        "topic", ".".join(pattern), ".".join(key)
    )


@pytest.mark.parametrize(
    ("pattern", "topic"),
    [
        (r"^a\.b\..*", "a/b/>"),
        (r"^a\.{username}\.[^.]+$", "a/$client-username/*"),
        (r"^{client_id}\.x$", "$client-id/x"),
        (r"a\.b$", ""),
        (r"^a.b$", ""),
        (r"^a\.(b|c)$", ""),
        (r"^a\.b", ""),
        (r"^a\.*$", ""),
        (r"^a\.>$", ""),
        (r"^a\.\w+$", ""),
        (r"^a\.$client-id$", ""),
    ],
)
def test_regular_expressions_of_keys_are_taken_where_a_filter_is_the_same(pattern: str, topic: str) -> None:
    assert topic_of_pattern(pattern) == topic


def test_shovels_between_queues_become_bridges_that_are_off(tmp_path: Path) -> None:
    value = {"src-uri": "amqp://", "src-queue": "q", "dest-uri": "amqp://me:pw@far.example/v", "dest-queue": "there"}
    shovel = {"component": "shovel", "vhost": "/", "name": "s 1", "value": value}
    config = loaded(imported(tmp_path, queues=[queue("q")], parameters=[shovel]), tmp_path)
    (bridge,) = config.bridges
    assert (bridge.name, bridge.enabled, bridge.remote_url) == ("s-1", False, "amqp://far.example:5672/v")
    assert (bridge.outgoing[0].queue, bridge.outgoing[0].remote_queue) == ("q", "/queues/there")
    assert bridge.password_file is not None
    assert bridge.password_file.read_text() == "pw\n"


@pytest.mark.parametrize("kind", ["topic", ""])
def test_a_topic_permission_of_another_exchange_leaves_no_right_to_it(kind: str, tmp_path: Path) -> None:
    rule = {"user": "bob", "vhost": "/", "exchange": "orders", "write": "^eu", "read": ".*"}
    made = imported(
        tmp_path,
        users=[user("bob")],
        permissions=[{"user": "bob", "vhost": "/", **EVERYTHING}],
        topic_permissions=[rule],
        exchanges=[exchange("orders", kind), exchange("open", "topic"), exchange("in*side", "topic")] if kind else [],
    )
    (profile,) = (each.profile() for each in loaded(made, tmp_path).authentication.acl_profiles)
    for rules in (profile.publish, profile.subscribe):
        topics = ("orders", "orders/eu", "open/eu", "plain")
        assert [each for each in topics if rules.allows_topic(each)] == ["open/eu", "plain"]
    assert "no right to the exchange" in "".join(notes(made, Part.NOT_TAKEN).values())


def test_topics_of_an_exchange_with_a_wildcard_in_its_name_are_kept_away(tmp_path: Path) -> None:
    made = imported(
        tmp_path,
        users=[user("bob")],
        permissions=[{"user": "bob", "vhost": "/", "configure": ".*", "read": ".*", "write": "^amq"}],
        exchanges=[exchange("in*side", "topic")],
    )
    (profile,) = (each.profile() for each in loaded(made, tmp_path).authentication.acl_profiles)
    assert [each for each in ("in*side/a", "in*side", "plain") if profile.publish.allows_topic(each)] == ["plain"]


def test_guest_is_no_operator_who_may_come_from_everywhere(tmp_path: Path) -> None:
    made = imported(
        tmp_path,
        users=[user("guest", tags=["administrator"])],
        permissions=[{"user": "guest", "vhost": "/", **EVERYTHING}],
    )
    assert loaded(made, tmp_path).admin.users == ()
    assert "admin.users" in notes(made, Part.NOT_TAKEN)["user 'guest': tags: [\"administrator\"]"]


def test_an_owner_may_do_more_than_a_reader_and_the_report_says_so(tmp_path: Path) -> None:
    made = imported(tmp_path, **WHOLE)
    assert "delete the queue: ann" in notes(made, Part.DIFFERS)["queue 'all'"]


def test_users_without_a_usable_hash_cannot_log_in(tmp_path: Path) -> None:
    users = [
        {"name": "old", "password_hash": "AsYO2ESs62RcsxNVyxKaR5DGxVI=", "tags": ""},
        user("cut", tags="", password_hash="kI3G"),
    ]
    permissions = [{"user": name, "vhost": "/", **EVERYTHING} for name in ("old", "cut")]
    made = imported(tmp_path, users=users, permissions=permissions)
    config = loaded(made, tmp_path)
    assert all(each.secret().startswith("$argon2") for each in config.authentication.users)
    assert "nobody can log in" in notes(made, Part.NOT_TAKEN)["user 'cut': password_hash: ..."]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"queues": [\n{"name": }]}', "defs.json:2: this is not JSON"),
        ("[]", "defs.json:1: this is no object"),
        ('{"queues": [{"name": "\\ud800"}]}', "defs.json: a text has half of a character"),
        ('{"a": 1}', "defs.json:1: these are no definitions of RabbitMQ"),
        ('{"queues":\n 7}', "defs.json:2: definitions: queues: 7 is not allowed; allowed: a list of objects"),
        ('{"queues": [\n{"name":\n 7}]}', "defs.json:3: queue: name: 7 is not allowed; allowed: a text"),
        ('{"queues": [{"name": "q", "vhost": "v"}]}', "defs.json:1: there is no virtual host 'v'"),
        (
            '{"queues": [{"name": "q",\n"arguments": {"x-message-ttl": "x"}}]}',
            "defs.json:2: queue 'q': x-message-ttl: \"x\" is not allowed; allowed: a whole number",
        ),
        (
            '{"queues": [{"name": "q"}],"policies": [\n{"name": "p", "pattern": "("}]}',
            "defs.json:2: '(' is no regular expression",
        ),
    ],
)
def test_mistakes_have_file_and_line(text: str, message: str, tmp_path: Path) -> None:
    if '"vhost": "v"' in text:
        text = text.replace("{", '{"vhosts": [{"name": "/"}],', 1)
    with pytest.raises(ImportFailed) as failure:
        import_rabbitmq("defs.json", text, node="here", folder=str(tmp_path))
    assert str(failure.value).startswith(message)


def test_a_policy_that_is_in_no_queue_says_why(tmp_path: Path) -> None:
    def policy(name: str, kind: str, **definition: object) -> dict[str, object]:
        given = {key.replace("_", "-"): value for key, value in definition.items()}
        return {"name": name, "vhost": "/", "pattern": name, "apply-to": kind, "priority": 0, "definition": given}

    policies = [policy("ex", "exchanges", alternate_exchange="rest"), policy("own", "queues", expires=9000)]
    policies.append(policy("none", "queues", expires=9000))
    made = imported(tmp_path, queues=[queue("own", x_expires=2000)], policies=policies)
    said = {note.setting.text: note.text for note in made.report.part(Part.NOT_TAKEN)}
    assert "no binding matches" in said["policy 'ex': alternate-exchange: \"rest\""]
    assert "have their own" in said["policy 'own': expires: 9000"]
    assert "no queue of these" in said["policy 'none': expires: 9000"]


def test_a_user_without_a_password_is_not_blamed_on_an_algorithm(tmp_path: Path) -> None:
    permission = {"user": "ada", "vhost": "/", **EVERYTHING}
    made = imported(tmp_path, users=[{"name": "ada", "tags": ""}], permissions=[permission])
    said = next(note.text for note in made.report.part(Part.NOT_TAKEN) if note.setting.text == "user 'ada'")
    assert said.startswith("it has no password here")


def test_an_exchange_that_distributes_by_hash_names_the_partitioned_queue(tmp_path: Path) -> None:
    made = imported(tmp_path, exchanges=[exchange("spread", "x-consistent-hash")])
    assert any("partitioned queue" in note.text for note in made.report.part(Part.NOT_TAKEN))


def test_a_shovel_within_one_broker_says_what_to_do(tmp_path: Path) -> None:
    ends = {"src-uri": "amqp:///x", "src-queue": "a", "dest-uri": "amqp:///x", "dest-queue": "b"}
    parameter = {"component": "shovel", "name": "move", "vhost": "/", "value": ends}
    made = imported(tmp_path, queues=[queue("a"), queue("b")], parameters=[parameter])
    assert any("within one broker" in note.text for note in made.report.part(Part.NOT_TAKEN))


def test_what_a_virtual_host_is_told_to_do_is_in_the_report(tmp_path: Path) -> None:
    vhosts = [
        {"name": "/", "metadata": {"default_queue_type": "quorum", "description": "of sales"}},
        {"name": "plain", "default_queue_type": "classic", "tracing": False},
    ]
    said = [note.setting.text for note in imported(tmp_path, vhosts=vhosts).report.part(Part.DIFFERS)]
    assert [text for text in said if "default_queue_type" in text or "tracing" in text] == [
        "virtual host '/': default_queue_type: \"quorum\""
    ]
