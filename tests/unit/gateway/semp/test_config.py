"""SEMP's config: queues, their topics, and queue templates, made, changed and deleted under SEMP's names."""

import pytest

from sluicegate.messaging.clients.limits import NO_QUOTA
from support.operations.memory_node import MemoryNode
from support.operations.running_admin import RunningAdmin
from support.operations.semp_client import refused, semp

QUEUES = "/config/msgVpns/default/queues"
TEMPLATES = "/config/msgVpns/default/queueTemplates"


def test_a_queue_is_made_with_attributes_of_the_reference(admin: RunningAdmin, node: MemoryNode) -> None:
    """SEMP: POST makes it and answers with it; names of the path may stand in the body as well."""
    body = {
        "msgVpnName": "default",
        "queueName": "orders/eu",
        "accessType": "non-exclusive",
        "partitionCount": 4,
        "partitionRebalanceDelay": 9,
        "eventBindCountThreshold": {"setPercent": 70, "clearPercent": 50},
    }
    found = semp(admin, "POST", QUEUES, body)
    assert found["links"]["uri"] == f"{admin.url}/SEMP/v2{QUEUES}/orders%2Feu"
    assert {name: found["data"][name] for name in body} == body
    assert "msgSpoolUsage" not in found["data"]
    config = node.definitions["orders/eu"].config
    assert (config.partition_count, config.partition_rebalance_delay_s) == (4, 9)
    assert config.event_bind_count_threshold == "70/50%"
    assert refused(admin, "POST", QUEUES, body)[:2] == (10, "ALREADY_EXISTS")


def test_a_queue_is_changed_in_part_or_as_a_whole(admin: RunningAdmin, node: MemoryNode) -> None:
    """SEMP: PATCH leaves what it does not name; PUT sets that to its default, and makes what is not there."""
    semp(admin, "POST", QUEUES, {"queueName": "q", "maxTtl": 7, "respectTtlEnabled": True})
    changed = semp(admin, "PATCH", f"{QUEUES}/q?select=max*", {"maxBindCount": 3})["data"]
    assert (changed["maxTtl"], changed["maxBindCount"]) == (7, 3)
    replaced = semp(admin, "PUT", f"{QUEUES}/q", {"queueName": "q", "maxTtl": 8})["data"]
    assert (replaced["maxTtl"], replaced["maxBindCount"], replaced["respectTtlEnabled"]) == (8, 1000, False)
    assert semp(admin, "PUT", f"{QUEUES}/other", {"maxTtl": 9})["data"]["queueName"] == "other"
    assert semp(admin, "DELETE", f"{QUEUES}/q").keys() == {"meta"}
    assert list(node.definitions) == ["other"]
    assert refused(admin, "DELETE", f"{QUEUES}/q")[1] == "NOT_FOUND"


def test_topics_of_a_queue_come_and_go_one_by_one(admin: RunningAdmin, node: MemoryNode) -> None:
    semp(admin, "POST", QUEUES, {"queueName": "q"})
    topics = f"{QUEUES}/q/subscriptions"
    for topic in ("a/*", "b/>"):
        assert semp(admin, "POST", topics, {"subscriptionTopic": topic})["data"]["subscriptionTopic"] == topic
    assert refused(admin, "POST", topics, {"subscriptionTopic": "a/*"})[:2] == (10, "ALREADY_EXISTS")
    assert semp(admin, "GET", f"{topics}/a%2F*")["data"] == {
        "msgVpnName": "default",
        "queueName": "q",
        "subscriptionTopic": "a/*",
    }
    semp(admin, "DELETE", f"{topics}/a%2F*")
    assert node.definitions["q"].subscriptions == ("b/>",)
    assert refused(admin, "DELETE", f"{topics}/a%2F*")[:2] == (6, "NOT_FOUND")
    assert refused(admin, "PATCH", f"{topics}/b%2F%3E", {}, status=405)[:2] == (89, "NOT_ALLOWED")


def test_templates_are_made_changed_and_deleted(admin: RunningAdmin, node: MemoryNode) -> None:
    body = {"queueTemplateName": "t", "queueNameFilter": "tmp*", "maxTtl": 3, "durabilityOverride": "non-durable"}
    found = semp(admin, "POST", TEMPLATES, body)["data"]
    assert {name: found[name] for name in body} == body
    semp(admin, "PATCH", f"{TEMPLATES}/t", {"maxBindCount": 5})
    assert node.templates["t"].attributes == {"max_ttl": 3, "max_bind_count": 5}
    semp(admin, "PUT", f"{TEMPLATES}/t", {"queueNameFilter": "x*"})
    assert (node.templates["t"].attributes, node.templates["t"].durability_override) == ({}, "none")
    semp(admin, "DELETE", f"{TEMPLATES}/t")
    assert node.templates == {}
    assert refused(admin, "PATCH", f"{TEMPLATES}/t", {})[1] == "NOT_FOUND"


def test_users_are_made_and_nothing_of_their_passwords_is_shown(admin: RunningAdmin, node: MemoryNode) -> None:
    """SEMP: a password is write-only; a PUT without one leaves it, and sets all else to its default."""
    users = "/config/msgVpns/default/clientUsernames"
    assert "it is missing" in refused(admin, "POST", users, {"clientUsername": "ada"})[2]
    found = semp(admin, "POST", users, {"clientUsername": "ada", "password": "grace", "enabled": False})["data"]
    assert found == {
        "msgVpnName": "default",
        "clientUsername": "ada",
        "enabled": False,
        "clientProfileName": "default",
        "aclProfileName": "default",
    }
    assert semp(admin, "PUT", f"{users}/ada", {})["data"]["enabled"] is True
    password = node.users["ada"].password
    assert password is not None
    assert password.get_secret_value() == "grace"
    assert refused(admin, "GET", f"{users}?where=password==grace")[2].endswith("is write-only")
    assert semp(admin, "GET", "/monitor/msgVpns/default/clientUsernames/ada")["data"]["connectionCount"] == 0
    assert refused(admin, "PATCH", f"{users}/fixed", {"enabled": False})[1] == "NOT_ALLOWED"
    semp(admin, "DELETE", f"{users}/ada")
    assert "ada" not in node.users


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({}, "queueName: it is missing"),
        ({"queueName": 7}, "queueName: 7"),
        ({"queueName": "a*"}, "queueName: "),
        ({"queueName": "q", "colour": "red"}, "colour: this is not an attribute that can be set"),
        ({"queueName": "q", "msgSpoolUsage": 1}, "msgSpoolUsage: this is not an attribute that can be set"),
        ({"queueName": "q", "msgVpnName": "other"}, "msgVpnName: 'other'"),
        ({"queueName": "q", "partitionRebalanceDelay": -1}, "partitionRebalanceDelay: -1"),
        ({"queueName": "q", "eventBindCountThreshold": {"setPercent": 7}}, "setPercent and clearPercent"),
        ({"queueName": "q", "eventBindCountThreshold": {"setPercent": 7, "clearPercent": 9}}, "7/9%"),
        (["q"], "JSON object"),
    ],
)
def test_errors_in_a_body_are_reported_in_the_names_of_semp(admin: RunningAdmin, body: object, word: str) -> None:
    code, status, description = refused(admin, "POST", QUEUES, body)
    assert (code, status) == (11, "INVALID_PARAMETER")
    assert word in description
    assert "allowed" in description or "must be" in description


def test_a_query_that_is_not_understood_changes_nothing(admin: RunningAdmin, node: MemoryNode) -> None:
    """Such as of `opaquePassword`, which is not supported: passwords are not shown, not even sealed."""
    queue = {"queueName": "q"}
    assert refused(admin, "POST", f"{QUEUES}?opaquePassword=secret", queue)[1] == "INVALID_PARAMETER"
    assert node.definitions == {}
    semp(admin, "POST", QUEUES, queue)
    for method in ("PATCH", "PUT", "DELETE"):
        body = None if method == "DELETE" else {"maxTtl": 7}
        assert refused(admin, method, f"{QUEUES}/q?select=colour", body)[1] == "INVALID_PARAMETER"
    assert node.definitions["q"].config.max_ttl == 0


def test_objects_of_the_configuration_are_read_only(admin: RunningAdmin, node: MemoryNode) -> None:
    """Message VPNs are shown with their settings; a queue that the node keeps is not deleted."""
    assert semp(admin, "GET", "/config/msgVpns/default")["data"] == {
        "msgVpnName": "default",
        "enabled": True,
        "maxMsgSpoolUsage": 0,
        "mqttRetainMaxMemory": 7,
        "maxConnectionCount": NO_QUOTA,
        "maxEndpointCount": NO_QUOTA,
        "maxSubscriptionCount": NO_QUOTA,
        "authenticationBasicType": "internal",
        "serviceRestMode": "messaging",
    }
    assert refused(admin, "DELETE", "/config/msgVpns/default")[:2] == (89, "NOT_ALLOWED")
    semp(admin, "POST", QUEUES, {"queueName": "q"})
    node.refusal = "it is busy"
    assert refused(admin, "DELETE", f"{QUEUES}/q") == (89, "NOT_ALLOWED", "it is busy")
