"""What becomes of a dump of SEMP v2: every attribute is in the report, and what is written is valid."""

import json
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.importing.imported import Imported
from sluicegate.gateway.importing.report import ImportFailed, Part
from sluicegate.gateway.importing.solace import import_solace
from sluicegate.gateway.importing.solace.settings import CLIENT_DEFAULTS, QUEUE_DEFAULTS
from support.importing.sources import loaded, notes

ORDERS = {
    "queueName": "orders",
    "msgVpnName": "sales",
    "accessType": "non-exclusive",
    "ingressEnabled": True,
    "egressEnabled": True,
    "permission": "consume",
    "owner": "ann",
    "partitionCount": 4,
    "partitionRebalanceDelay": 7,
    "maxMsgSpoolUsage": 100,
    "maxTtl": 60,
    "respectTtlEnabled": True,
    "maxRedeliveryCount": 3,
    "deadMsgQueue": "dead",
    "redeliveryDelayInitialInterval": 2000,
    "eventBindCountThreshold": {"setPercent": 70, "clearPercent": 50},
    "rejectLowPriorityMsgEnabled": False,
    "consumerAckPropagationEnabled": True,
    "maxBindCount": 9_999_999,
    "subscriptions": [{"subscriptionTopic": "orders/>", "queueName": "orders"}, {"subscriptionTopic": "bad//>>"}],
}
SALES = {
    "msgVpnName": "sales",
    "enabled": True,
    "authenticationBasicEnabled": True,
    "authenticationBasicType": "internal",
    "maxConnectionCount": 500,
    "maxMsgSpoolUsage": 1500,
    "serviceMqttPlainTextEnabled": True,
    "serviceMqttPlainTextListenPort": 1885,
    "serviceAmqpPlainTextEnabled": False,
    "serviceAmqpPlainTextListenPort": 5672,
    "maxEgressFlowCount": 1000,
    "queues": [ORDERS, {"queueName": "bare"}, {"queueName": "bad?"}],
    "queueTemplates": [{"queueTemplateName": "t", "queueNameFilter": "tmp/>", "maxBindCount": 2}],
    "aclProfiles": [
        {
            "aclProfileName": "devices",
            "publishTopicDefaultAction": "disallow",
            "subscribeTopicDefaultAction": "allow",
            "publishTopicExceptions": [
                {"publishTopicException": "up/$client-username/>", "publishTopicExceptionSyntax": "smf"},
            ],
            "subscribeTopicExceptions": [
                {"subscribeTopicException": "secret/#/x", "subscribeTopicExceptionSyntax": "mqtt"},
            ],
            "clientConnectExceptions": [{"clientConnectExceptionAddress": "10.0.0.0/8"}],
        },
        {"aclProfileName": "#acl-profile"},
    ],
    "clientProfiles": [
        {"clientProfileName": "devices", "allowGuaranteedMsgSendEnabled": True, "maxSubscriptionCount": 7},
    ],
    "clientUsernames": [
        {"clientUsername": "ann", "enabled": True, "aclProfileName": "devices", "clientProfileName": "devices",
         "guaranteedEndpointPermissionOverrideEnabled": False},
        {"clientUsername": "bob", "enabled": True, "password": "secret", "aclProfileName": "gone"},
        {"clientUsername": "#client-username"},
    ],
    "bridges": [
        {"bridgeName": "far", "enabled": True, "remoteMsgVpns": [
            {"remoteMsgVpnName": "v", "remoteMsgVpnLocation": "far.example:55555", "queueBinding": "q"}],
         "remoteSubscriptions": [{"remoteSubscriptionTopic": "alarms/>"}]},
    ],
    "restDeliveryPoints": [{"restDeliveryPointName": "rdp"}],
    "made_up": {"deep": [1, 2]},
}  # fmt: skip


def imported(folder: Path, *vpns: dict[str, Any], **more: Any) -> Imported:
    text = json.dumps({"msgVpns": [*vpns], **more}, indent=1)
    return import_solace("dump.json", text, node="here", folder=str(folder))


def test_every_attribute_is_in_the_report(tmp_path: Path) -> None:
    made = imported(tmp_path, SALES, {"msgVpnName": "#config-sync", "enabled": True})
    loaded(made, tmp_path)
    said = "\n".join(f"{note.setting.place} {note.text}" for note in made.report.notes)
    names = [
        *ORDERS,
        *SALES,
        "bad//>>",
        "bad?",
        "#acl-profile",
        "#config-sync",
        "rdp",
        "made_up.deep.1",
        "secret/#/x",
        "far",
    ]
    plain = {"msgVpnName", "queueName", "subscriptions", "queues", "queueTemplates", "aclProfiles", "clientProfiles"}
    plain |= {"clientUsernames", "bridges", "restDeliveryPoints", "made_up"}
    assert [name for name in names if name not in plain and name not in said] == []


def test_a_message_vpn_has_its_queues_users_and_limits(tmp_path: Path) -> None:
    config = loaded(imported(tmp_path, SALES), tmp_path)
    vpn = config.vpns["sales"]
    assert (vpn.enabled, vpn.max_connection_count, vpn.usage_bytes_max) == (True, 500, 1500 << 20)
    assert (config.listeners.mqtt.port, config.listeners.mqtt.vpn) == (1885, "sales")
    assert vpn.authentication.allow_anonymous is False
    queues = {each.config.name: each for each in vpn.queues.declared}
    orders = queues["orders"]
    assert orders.config.to_dict().items() >= {
        "access_type": "non-exclusive", "owner": "ann", "partition_count": 4, "max_msg_spool_usage": 100, "max_ttl": 60,
        "partition_rebalance_delay_s": 7, "max_redelivery_count": 3, "dead_msg_queue": "dead",
        "redelivery_delay_initial_interval_ms": 2000, "event_bind_count_threshold": "70/50%",
    }.items()  # fmt: skip
    assert [*orders.subscriptions] == ["orders/>"]
    users = {each.name: each for each in vpn.authentication.users}
    assert (users["ann"].enabled, users["ann"].acl_profile, users["ann"].client_profile) == (True, "devices", "devices")
    assert (users["bob"].enabled, users["bob"].is_hashed()) == (False, True)
    assert [(each.name, each.queue_name_filter) for each in vpn.queues.templates] == [("t", "tmp/>")]


def test_what_a_dump_leaves_out_has_solaces_default(tmp_path: Path) -> None:
    """Dumps without defaults must not open what is closed there."""
    config = loaded(imported(tmp_path, SALES), tmp_path)
    bare = next(each.config for each in config.vpns["sales"].queues.declared if each.config.name == "bare").to_dict()
    assert bare.items() >= dict(QUEUE_DEFAULTS.values()).items()
    (profile,) = config.vpns["sales"].authentication.client_profiles
    assert profile.allow_guaranteed_msg_send_enabled is True
    assert profile.max_subscription_count == 7
    closed = [field for field, _ in CLIENT_DEFAULTS.values() if field != "allow_guaranteed_msg_send_enabled"]
    assert not any(getattr(profile, field) for field in closed)
    assert config.vpns["sales"].authentication.acl_profiles[0].client_connect_default_action == "disallow"


def test_a_denial_that_cannot_be_taken_closes_its_kind(tmp_path: Path) -> None:
    made = imported(tmp_path, SALES)
    profile = loaded(made, tmp_path).vpns["sales"].authentication.acl_profiles[0]
    assert profile.subscribe_topic_default_action == "disallow"
    assert [each.topic for each in profile.publish_topic_exceptions] == ["up/$client-username/>"]
    assert "written as disallow" in "".join(notes(made, Part.NOT_TAKEN).values())


BROKEN = {
    "clientConnect": ("clientConnectExceptions", "clientConnectExceptionAddress", "10.0.0.1/8", "192.168.1.0/24"),
    "subscribeTopic": ("subscribeTopicExceptions", "subscribeTopicException", "bad//>>", "ok"),
}


@pytest.mark.parametrize("is_broken_first", [True, False])
@pytest.mark.parametrize("kind", ["clientConnect", "subscribeTopic"])
def test_a_kind_that_is_closed_admits_no_other_exception(kind: str, is_broken_first: bool, tmp_path: Path) -> None:
    """An exception that denied something must not allow it, because another one cannot be taken."""
    name, key, broken, valid = BROKEN[kind]
    values = [broken, valid] if is_broken_first else [valid, broken]
    profile = {"aclProfileName": "p", f"{kind}DefaultAction": "allow", name: [{key: each} for each in values]}
    made = imported(tmp_path, {"msgVpnName": "sales", "aclProfiles": [profile]})
    acl = loaded(made, tmp_path).vpns["sales"].authentication.acl_profiles[0].profile()
    if kind == "clientConnect":
        assert not any(acl.connect.allows(address) for address in ("10.0.0.1", "192.168.1.1", "192.0.2.1"))
    else:
        assert not any(acl.subscribe.allows_topic(topic) for topic in ("ok", "other"))
    missing = notes(made, Part.NOT_TAKEN)
    assert [each for each in values if f"exception {each!r}" not in missing] == []


@pytest.mark.parametrize("kind", ["aclProfiles", "clientProfiles", "clientUsernames", "bridges"])
def test_an_object_without_a_name_is_left_out(kind: str, tmp_path: Path) -> None:
    made = imported(tmp_path, {"msgVpnName": "sales", "enabled": True, kind: [{"name": "orders"}]})
    loaded(made, tmp_path)
    assert any(text.startswith("it has no ") for text in notes(made, Part.NOT_TAKEN).values())


def test_a_rest_delivery_point_is_called_by_its_name(tmp_path: Path) -> None:
    point = {"enabled": True, "restDeliveryPointName": "invoices"}
    made = imported(tmp_path, {"msgVpnName": "sales", "restDeliveryPoints": [point]})
    assert any("invoices" in place for place in notes(made, Part.NOT_TAKEN))


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    secrets = {
        "remoteAuthenticationBasicPassword": "word1",
        "clientSecret": "word2",
        "made_up": {"oauth": {"Token": "word3", "psk": ["word4"]}, "uri": "amqp://me:word5@host"},
    }
    made = imported(tmp_path, {"msgVpnName": "sales", **secrets, "bridges": [{"bridgeName": "b", **secrets}]})
    said = "\n".join([*made.report.lines(), json.dumps(made.report.to_dict())])
    assert [name for name in ("PasswordX", *secrets) if name not in said] == ["PasswordX"]
    assert "word" not in said.replace("remoteAuthenticationBasicPassword", "").replace("password", "").lower()


def test_bridges_are_written_and_switched_off(tmp_path: Path) -> None:
    (bridge,) = loaded(imported(tmp_path, SALES), tmp_path).vpns["sales"].bridges
    assert (bridge.name, bridge.enabled, bridge.remote_url) == ("far", False, "amqp://far.example")
    assert [(each.remote_queue, each.remote_topic) for each in bridge.incoming] == [("q", ""), ("", "alarms/>")]


@pytest.mark.parametrize("form", ["responses", "one", "data"])
def test_responses_of_semp_are_dumps_as_well(form: str, tmp_path: Path) -> None:
    vpn: dict[str, Any] = {
        "msgVpnName": "default",
        "enabled": True,
        "queues": {"data": [ORDERS], "meta": {}, "links": []},
    }
    document = {
        "responses": {"msgVpns": {"data": [vpn], "meta": {"x": 1}}},
        "one": vpn,
        "data": {"data": [vpn], "meta": {}},
    }
    made = import_solace("d.json", json.dumps(document[form]), node="here", folder=str(tmp_path))
    config = loaded(made, tmp_path)
    assert [each.config.name for each in config.queues.declared] == ["orders"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"msgVpns":\n [}', "d.json:2: this is not JSON"),
        ('{"msgVpns":\n [], "x": {"a": 1,\n "a": {"b": 1}}}', "d.json:3: the key 'a' is in its object twice"),
        (f'{{"msgVpns": {"1" * 5000}}}', "d.json: it has a number of thousands of digits"),
        ('{"queues": []}', "d.json:1: this is no dump of SEMP v2"),
        ('{"msgVpns": [{}]}', "d.json:1: this is no dump of SEMP v2"),
        ('{"msgVpns": [{"msgVpnName":\n 7}]}', "d.json:2: message VPN: msgVpnName: 7 is not allowed; allowed: a text"),
        ('{"msgVpns": [{"msgVpnName": "v", "queues":\n 7}]}', "d.json:2: message VPN 'v': queues: 7 is not allowed"),
    ],
)
def test_mistakes_have_file_and_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ImportFailed) as failure:
        import_solace("d.json", text, node="here", folder=str(tmp_path))
    assert str(failure.value).startswith(message)
