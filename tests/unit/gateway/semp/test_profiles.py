"""SEMP's config: client profiles, ACL profiles and the exceptions of these, made, changed and deleted."""

from sluicegate.gateway.config.sections.security.authentication import Authentication
from sluicegate.gateway.views.clients.accounts import ProfileKind
from support.operations.memory_node import MemoryNode
from support.operations.running_admin import RunningAdmin
from support.operations.semp_client import refused, semp

CLIENTS = "/config/msgVpns/default/clientProfiles"
ACLS = "/config/msgVpns/default/aclProfiles"


def test_a_client_profile_is_made_changed_and_deleted(admin: RunningAdmin) -> None:
    """SEMP: PATCH leaves what it does not name; PUT sets that to its default, and makes what is not there."""
    made = semp(admin, "POST", CLIENTS, {"clientProfileName": "small", "maxConnectionCount": 3, "maxMsgRate": 9})
    assert made["links"]["uri"] == f"{admin.url}/SEMP/v2{CLIENTS}/small"
    assert made["data"]["maxConnectionCount"] == 3
    changed = semp(admin, "PATCH", f"{CLIENTS}/small", {"allowGuaranteedMsgSendEnabled": False})["data"]
    assert (changed["allowGuaranteedMsgSendEnabled"], changed["maxMsgRate"]) == (False, 9)
    replaced = semp(admin, "PUT", f"{CLIENTS}/small", {"maxMsgRate": 8})["data"]
    assert (replaced["allowGuaranteedMsgSendEnabled"], replaced["maxMsgRate"]) == (True, 8)
    assert semp(admin, "PUT", f"{CLIENTS}/other", {})["data"]["clientProfileName"] == "other"
    assert refused(admin, "POST", CLIENTS, {"clientProfileName": "other"})[:2] == (10, "ALREADY_EXISTS")
    code, status, text = refused(admin, "PATCH", f"{CLIENTS}/small", {"maxConnectionCount": -1})
    assert (code, status) == (11, "INVALID_PARAMETER")
    assert text.startswith("maxConnectionCount: -1 is not allowed")
    semp(admin, "DELETE", f"{CLIENTS}/small")
    assert refused(admin, "GET", f"{CLIENTS}/small")[:2] == (6, "NOT_FOUND")


def test_exceptions_of_an_acl_profile_come_and_go_one_by_one(admin: RunningAdmin, node: MemoryNode) -> None:
    """SEMP: objects below the profile, named by syntax and topic; what is said of the profile leaves them alone."""
    semp(admin, "POST", ACLS, {"aclProfileName": "devices", "publishTopicDefaultAction": "disallow"})
    topics = f"{ACLS}/devices/publishTopicExceptions"
    for syntax, topic, place in (("smf", "up/a,b", "smf,up%2Fa,b"), ("mqtt", "up/a,b", "mqtt,up%2Fa,b")):
        body = {"publishTopicException": topic, "publishTopicExceptionSyntax": syntax}
        made = semp(admin, "POST", topics, body)
        assert made["data"] == {**body, "msgVpnName": "default", "aclProfileName": "devices"}
        assert made["links"]["uri"] == f"{admin.url}/SEMP/v2{topics}/{place}"
        assert semp(admin, "GET", f"{topics}/{place}")["data"] == made["data"]
        assert refused(admin, "POST", topics, body)[:2] == (10, "ALREADY_EXISTS")
    assert len(semp(admin, "GET", topics)["data"]) == 2
    code, _, text = refused(admin, "POST", topics, {"publishTopicException": "a"})
    assert (code, text.partition(";")[0]) == (11, "publishTopicExceptionSyntax: it is missing")
    code, _, text = refused(admin, "POST", topics, {"publishTopicException": "a", "publishTopicExceptionSyntax": "x"})
    assert (code, text.partition(":")[0]) == (11, "publishTopicExceptionSyntax")
    networks = f"{ACLS}/devices/clientConnectExceptions"
    semp(admin, "POST", networks, {"clientConnectExceptionAddress": "10.0.0.0/8"})
    assert refused(admin, "POST", networks, {"clientConnectExceptionAddress": "ten"})[1] == "INVALID_PARAMETER"
    semp(admin, "PUT", f"{ACLS}/devices", {"subscribeTopicDefaultAction": "allow"})
    counts = semp(admin, "GET", f"{ACLS}/devices")["collections"]
    assert (counts["publishTopicExceptions"], counts["clientConnectExceptions"]) == ({"count": 2}, {"count": 1})
    semp(admin, "DELETE", f"{topics}/smf,up%2Fa%2Cb")
    semp(admin, "DELETE", f"{networks}/10.0.0.0%2F8")
    assert refused(admin, "DELETE", f"{topics}/smf,up%2Fa,b")[:2] == (6, "NOT_FOUND")
    left = node.profiles[ProfileKind.ACL]["devices"].to_dict()["publish_topic_exceptions"]
    assert left == [{"topic": "up/a,b", "syntax": "mqtt"}]


def test_profiles_of_the_configuration_are_changed_there(admin: RunningAdmin, node: MemoryNode) -> None:
    node.authentication = Authentication.model_validate({"acl_profiles": [{"name": "fixed"}]})
    for name in ("fixed", "default"):
        assert refused(admin, "PATCH", f"{ACLS}/{name}", {})[:2] == (89, "NOT_ALLOWED")
        assert refused(admin, "DELETE", f"{ACLS}/{name}")[:2] == (89, "NOT_ALLOWED")
        topics = f"{ACLS}/{name}/publishTopicExceptions"
        exception = {"publishTopicException": "t", "publishTopicExceptionSyntax": "smf"}
        assert refused(admin, "POST", topics, exception)[:2] == (89, "NOT_ALLOWED")
        assert refused(admin, "POST", ACLS, {"aclProfileName": name})[:2] == (10, "ALREADY_EXISTS")


def test_the_admin_api_has_profiles_with_their_origin(admin: RunningAdmin) -> None:
    made = admin.ask("POST", "/acl-profiles", {"name": "a/b", "publish_topic_exceptions": [{"topic": "t"}]})
    assert (made.status, made.headers["location"]) == (201, "/acl-profiles/a%2Fb")
    shown = admin.ask("GET", "/acl-profiles/a%2Fb").json()
    assert shown == made.json()
    assert shown["origin"] == "operator"
    assert admin.ask("GET", "/client-profiles/default").json()["origin"] == "configuration"
    changed = admin.ask("PATCH", "/acl-profiles/a%2Fb", {"publish_topic_exceptions": []}).json()
    assert changed["publish_topic_exceptions"] == []
    assert admin.ask("PATCH", "/acl-profiles/a%2Fb", {"name": "c"}).status == 422
    assert (
        admin.ask("POST", "/client-profiles", {"name": "x", "max_msg_rate": "many"}).json()["field"] == "max_msg_rate"
    )
    assert admin.ask("DELETE", "/acl-profiles/a%2Fb").status == 204
    assert admin.ask("DELETE", "/client-profiles/none").status == 404
