"""The section of bridges: what it refuses, and what the refusal says."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from sluicegate.gateway.config.document import ConfigError
from sluicegate.gateway.config.load import load
from sluicegate.gateway.config.sections.message_vpns.bridges import Bridge
from sluicegate.gateway.config.settings.bridges import refused_rules, settings_of
from sluicegate.protocols.bridges.settings import Protocol

NAMED = "node.name=here"


def bridge(**given: Any) -> str:
    """Return the setting of one bridge."""
    value = [{"name": "b", "remote_url": "mqtt://plant.example", **given}]
    return "bridges=" + yaml.safe_dump(value, default_flow_style=True, width=100_000).strip()


def refusal(**given: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        load(None, settings=(NAMED, bridge(**given)))
    return str(refused.value)


def test_a_bridge_needs_a_name_and_a_url() -> None:
    [configured] = load(None, settings=(NAMED, bridge(outgoing=[{"queue": "q"}]))).bridges
    made = settings_of(configured, node="node", vpn="default")
    assert (made.remote.protocol, made.remote.host, made.remote.port) == (Protocol.MQTT_5, "plant.example", 1883)
    assert made.remote.client_id == "node-b"
    assert made.outgoing[0].qos == 1, "a queue is not for messages that may be lost"
    assert made.remote.url() == "mqtt://plant.example:1883"


@pytest.mark.parametrize("scheme", ["mqtt", "amqp", "flow"])
def test_a_bridge_may_say_all_its_defaults_as_the_store_does(scheme: str) -> None:
    given = bridge(remote_url=f"{scheme}://plant.example", outgoing=[{"queue": "q"}])
    [configured] = load(None, settings=(NAMED, given)).bridges
    stored = Bridge.model_validate(configured.model_dump(mode="json"))
    assert list(refused_rules(stored)) == []


def test_topics_are_direct_by_default() -> None:
    [configured] = load(None, settings=(NAMED, bridge(outgoing=[{"topic": "a/#"}]))).bridges
    assert settings_of(configured, node="node", vpn="default").outgoing[0].qos == 0


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://plant.example", "is no URL of a broker"),
        ("mqtt://", "is no URL of a broker"),
        ("mqtt://plant.example:99999", "Port out of range"),
        ("mqtt://me:secret@plant.example", "allowed: username and password_file"),
        ("mqtt://plant.example/vpn", "has more than a host and a port"),
    ],
)
def test_a_url_is_refused_with_what_is_allowed(url: str, why: str) -> None:
    said = refusal(remote_url=url)
    assert why in said
    assert "secret" not in said
    assert "allowed: " in said


IN = [{"remote_topic": "z/#"}]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"outgoing": [{}]}, "has either queue or topic"),
        ({"outgoing": [{"queue": "q", "qos": 3}]}, "qos: 3 is not allowed; allowed: 0, 1 or 2"),
        ({"incoming": [{"remote_topic": "t", "qos": 3}]}, "allowed: a whole number from 0 to 2"),
        ({"outgoing": [{"queue": "q", "topic": "t"}]}, "has either queue or topic"),
        ({"outgoing": [{"queue": "q", "remote_queue": "r"}]}, "MQTT has no queues"),
        ({"outgoing": [{"queue": "q", "remote_topic": "r", "add_prefix": "x/"}]}, "leaves nothing to strip_prefix"),
        ({"outgoing": [{"topic": "a/#", "strip_prefix": "b/"}]}, "is not what all topics of 'a/#' begin with"),
        ({"outgoing": [{"queue": "q"}, {"queue": "q"}]}, "the name 'q' appears 2 times"),
        ({"incoming": [{"topic": "t"}]}, "has either remote_topic or remote_queue"),
        ({"incoming": [{"remote_topic": "t", "topic": "$SYS/x"}]}, "are the gateway's"),
        ({"incoming": [{"remote_topic": "a/#/b"}]}, "it is no topic filter of MQTT"),
        ({"incoming": [{"remote_topic": "a/#"}, {"remote_topic": "a/+"}]}, "whose messages would come twice"),
        ({"incoming": [{"remote_topic": "$queue/q"}, {"remote_topic": "a/+"}]}, "messages of a queue have any topic"),
        ({"outgoing": [{"queue": "q", "remote_topic": "hq/#"}]}, "'+' and '#' in filters only"),
        ({"outgoing": [{"queue": "q", "add_prefix": "a/+/"}]}, "outgoing.0.add_prefix: no message can have such"),
        ({"incoming": [{"remote_topic": "a/#", "add_prefix": "x/#/"}]}, "incoming.0.add_prefix: no message can have"),
        ({"incoming": [{"remote_topic": "a/#", "add_prefix": "$queue/"}]}, "are the gateway's"),
        ({"incoming": [{"remote_topic": "$share/g/a/#", "strip_prefix": "$share/g/"}]}, "allowed: 'a/' or a part"),
        (
            {"mqtt_version": "3.1.1", "outgoing": [{"queue": "q", "remote_topic": "a#b"}], "incoming": IN},
            "no message can have such a topic",
        ),
        ({"password_file": "/x"}, "password_file needs username"),
        ({"remote_url": "flow://other.example", "mqtt_version": "3.1.1"}, "mqtt_version: flow:// is not MQTT"),
        ({"remote_url": "amqp://other.example", "maximum_packet_size": "1 MiB"}, "maximum_packet_size: amqp:// is not"),
        (
            {"mqtt_version": "3.1.1", "session_expiry_s": 60},
            "session_expiry_s: a session of MQTT 3.1.1 does not expire",
        ),
        (
            {
                "remote_url": "flow://other.example",
                "incoming": [{"remote_topic": "a/>", "qos": 0}, {"remote_topic": "a/b", "qos": 0}],
            },
            "incoming.1.remote_topic: it has topics in common with that of rule 'a/>'",
        ),
        ({"tls_authorities_file": "/x"}, "allowed: mqtts://"),
    ],
)
def test_rules_that_do_not_go_together_are_refused(given: dict[str, Any], why: str) -> None:
    assert why in refusal(**given)


def test_messages_that_would_go_in_circles_are_refused_where_the_protocol_cannot_stop_them() -> None:
    """MQTT 3.1.1 has neither No Local nor user properties."""
    both = {"outgoing": [{"topic": "a/#"}], "incoming": [{"remote_topic": "a/+/b"}]}
    said = refusal(mqtt_version="3.1.1", **both)
    assert "its messages would come back by the incoming rule 'a/+/b'" in said
    assert "outgoing.0" in said
    load(None, settings=(NAMED, bridge(**both)))
    apart = {"outgoing": [{"topic": "a/#", "add_prefix": "hq/"}], "incoming": [{"remote_topic": "a/#"}]}
    load(None, settings=(NAMED, bridge(mqtt_version="3.1.1", **apart)))


def test_a_queue_may_hold_any_topic_and_so_may_go_in_circles() -> None:
    incoming = [{"remote_topic": "in/#"}]
    assert "would come back" in refusal(mqtt_version="3.1.1", outgoing=[{"queue": "q"}], incoming=incoming)
    prefixed = [{"queue": "q", "add_prefix": "out/"}]
    load(None, settings=(NAMED, bridge(mqtt_version="3.1.1", outgoing=prefixed, incoming=incoming)))


def test_qos_2_goes_over_both_versions_of_mqtt() -> None:
    for version in ("3.1.1", "5"):
        load(None, settings=(NAMED, bridge(mqtt_version=version, outgoing=[{"queue": "q", "qos": 2}])))


@pytest.mark.parametrize(
    ("incoming", "why"),
    [
        ({"remote_topic": "a/#"}, "topics bring direct messages in the flow protocol; allowed: 0, or remote_queue"),
        ({"remote_queue": "q", "qos": 2, "topic": "t"}, "a queue is consumed at least once; for exactly once give"),
    ],
)
def test_more_than_the_flow_protocol_guarantees_is_refused(incoming: dict[str, Any], why: str) -> None:
    assert why in refusal(remote_url="flow://other.example", incoming=[incoming])


def test_a_password_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "absent"
    assert str(missing) in refusal(username="me", password_file=str(missing))


@pytest.mark.parametrize(
    "incoming",
    [
        {"remote_topic": "$share/g/orders/#", "strip_prefix": "orders/"},
        {"remote_topic": "$queue/all-orders", "strip_prefix": "orders/"},
    ],
)
def test_what_is_stripped_is_of_topics_and_not_of_the_subscription(incoming: dict[str, Any]) -> None:
    """A shared subscription and a queue bring messages with their own topics."""
    [configured] = load(None, settings=(NAMED, bridge(incoming=[incoming]))).bridges
    made = settings_of(configured, node="node", vpn="default")
    assert made.incoming[0].topic_map.image("orders/7") == "7"


def test_an_address_of_amqp_is_the_other_brokers_matter() -> None:
    outgoing = [{"queue": "q", "remote_topic": "a#b"}]
    load(None, settings=(NAMED, bridge(remote_url="amqp://plant.example", outgoing=outgoing)))


@pytest.mark.parametrize("where", ["bridges", "vpns.sales.bridges"])
def test_a_broker_with_bridges_has_a_name_of_its_own(where: str) -> None:
    """Brokers of one name take each other's messages for their own that come back, and drop them."""
    setting = bridge(outgoing=[{"queue": "q"}]).replace("bridges", where, 1)
    with pytest.raises(ConfigError) as refused:
        load(None, settings=(setting,))
    assert "node.name is missing" in str(refused.value)
    load(None, settings=(setting, "node.name=sluicegate"))


# --- beside other bridges, and beside queues ---


def problems(*bridges: dict[str, Any], queues: tuple[dict[str, Any], ...] = ()) -> str:
    """Return what is said of bridges to one foreign broker; empty: nothing."""
    made = [{"name": f"b{index}", "remote_url": "mqtt://plant.example", **each} for index, each in enumerate(bridges)]
    given = {"node": {"name": "here"}, "bridges": made, "queues": {"declared": [*queues]}}
    try:
        load(
            None,
            settings=tuple(f"{key}={yaml.safe_dump(value, default_flow_style=True)}" for key, value in given.items()),
        )
    except ConfigError as refused:
        return str(refused)
    return ""


OUT: dict[str, Any] = {"outgoing": [{"topic": "a/#"}]}
BACK: dict[str, Any] = {"incoming": [{"remote_topic": "a/+"}]}
OLD: dict[str, Any] = {"mqtt_version": "3.1.1"}


@pytest.mark.parametrize(
    ("bridges", "place"),
    [
        ([OUT | OLD, BACK], "bridges.1.incoming.0: it would bring back the messages of the outgoing rule 'a/#'"),
        ([BACK | OLD, OUT], "bridges.1.outgoing.0: its messages would come back by the incoming rule 'a/+'"),
        ([OUT, BACK | OLD], "of bridge 'b0', to the same foreign broker"),
    ],
)
def test_circles_over_two_bridges_are_refused(bridges: list[dict[str, Any]], place: str) -> None:
    assert place in problems(*bridges)


@pytest.mark.parametrize(
    "bridges",
    [
        [OUT, BACK],
        [OUT | OLD, BACK | {"remote_url": "mqtt://plant.example:1884"}],
        [OUT | OLD, BACK | {"enabled": False}],
        [OUT | OLD, {"incoming": [{"remote_topic": "b/#"}]}],
    ],
    ids=["MQTT 5 marks messages", "another broker", "disabled", "other topics"],
)
def test_bridges_that_bring_nothing_back_are_not_refused(bridges: list[dict[str, Any]]) -> None:
    assert not problems(*bridges)


def test_two_bridges_have_two_client_identifiers_at_one_foreign_broker() -> None:
    said = problems({}, {"client_id": "here-b0"})
    assert "bridges.1.client_id: 'here-b0' is the client identifier of bridge 'b0'" in said
    assert "allowed: one that no other bridge to this foreign broker has" in said
    assert not problems({"client_id": "x"}, {"client_id": "x", "remote_url": "mqtt://other.example"})


def test_a_queue_that_the_bridge_may_not_consume_from_is_refused() -> None:
    outgoing = {"outgoing": [{"queue": "q"}]}
    said = problems(outgoing, queues=({"name": "q", "permission": "no-access", "owner": "me"},))
    assert "bridges.0.outgoing.0.queue: queue 'q' has permission 'no-access'" in said
    assert "allowed: a queue with owner '#bridge/b0', or permission 'consume'" in said
    for owned in ({"owner": "#bridge/b0", "permission": "no-access"}, {"owner": "me"}):
        assert not problems(outgoing, queues=({"name": "q", **owned},))
