"""SEMP's monitor, asked as clients of Solace's brokers ask it."""

from typing import Any
from urllib.parse import quote

import orjson
import pytest

from sluicegate.gateway.admin.semp.query import cursor_after
from sluicegate.gateway.config.sections.security.authentication import Authentication
from sluicegate.gateway.views.queues.queues import FlowView
from sluicegate.messaging.routing.deliver_to_one import priorities_of
from sluicegate.messaging.routing.destinations import Subscriber, Subscription
from sluicegate.messaging.topics.syntax import Syntax, parse_filter
from support.operations.memory_clients import client_view
from support.operations.memory_node import MemoryNode
from support.operations.running_admin import RunningAdmin
from support.operations.semp_client import refused, semp

BASE = "/SEMP/v2/monitor"


def queue(admin: RunningAdmin, name: str, **attributes: object) -> None:
    assert admin.ask("POST", "/queues", {"name": name, **attributes}).status == 201


def asked(admin: RunningAdmin, path: str) -> dict[str, Any]:
    return semp(admin, "GET", "/monitor" + path)


def error(admin: RunningAdmin, path: str) -> tuple[int, str, str]:
    return refused(admin, "GET", "/monitor" + path)


def test_the_query_of_kedas_scaler_is_answered_as_it_wants(admin: RunningAdmin, node: MemoryNode) -> None:
    """KEDA, solace-event-queue: collections.msgs.count, data.msgSpoolUsage, data.averageRxMsgRate, and no more."""
    queue(admin, "orders/eu")
    for _ in range(3):
        node.publish("orders/eu", b"12345")
    path = "/msgVpns/default/queues/orders%2Feu"
    found = asked(admin, f"{path}?select=msgs,msgSpoolUsage,averageRxMsgRate")
    assert found["collections"] == {"msgs": {"count": 3}}
    assert found["data"] == {"msgSpoolUsage": 15, "averageRxMsgRate": 0}
    assert found["links"]["uri"] == admin.url + BASE + path
    assert found["links"]["txFlowsUri"] == admin.url + BASE + path + "/txFlows"


def test_a_message_vpn_says_whether_it_is_up(admin: RunningAdmin) -> None:
    assert asked(admin, "/msgVpns/default?select=state")["data"] == {"state": "up"}
    assert asked(admin, "/about/api")["data"]["platform"] == "Sluicegate"


def test_attributes_of_a_queue_have_the_names_of_the_reference(admin: RunningAdmin) -> None:
    """SEMP: names are in camel case, thresholds have parts; keys of what it lies in are among them."""
    queue(admin, "q", access_type="non-exclusive", partition_count=4, event_bind_count_threshold="30/20")
    data = asked(admin, "/msgVpns/default/queues/q")["data"]
    assert (data["msgVpnName"], data["queueName"]) == ("default", "q")
    assert (data["accessType"], data["partitionCount"], data["maxMsgSpoolUsage"]) == ("non-exclusive", 4, 5000)
    assert data["eventBindCountThreshold"] == {"clearValue": 20, "setValue": 30}
    assert data["eventMsgSpoolUsageThreshold"] == {"clearPercent": 18, "setPercent": 25}


def test_pages_follow_each_other_until_there_are_none(admin: RunningAdmin) -> None:
    """SEMP: ten a page unless `count` says otherwise; paging.nextPageUri keeps the rest of the query."""
    names = sorted(f"q/{number}" for number in range(23))
    for name in names:
        queue(admin, name)
    seen: list[str] = []
    path: str | None = "/msgVpns/default/queues?select=queueName"
    sizes = []
    while path is not None:
        found = asked(admin, path)
        sizes.append(len(found["data"]))
        assert found["meta"]["count"] == 23
        assert [each["uri"] for each in found["links"]] == [
            f"{admin.url}{BASE}/msgVpns/default/queues/{quote(each['queueName'], safe='')}" for each in found["data"]
        ]
        seen += [each["queueName"] for each in found["data"]]
        paging = found["meta"].get("paging")
        path = None if paging is None else paging["nextPageUri"].removeprefix(admin.url + BASE)
        assert paging is None or paging["cursorQuery"] in str(path)
    assert seen == names
    assert sizes == [10, 10, 3]


def test_where_wants_all_of_its_clauses(admin: RunningAdmin, node: MemoryNode) -> None:
    for name in ("orders/eu", "orders/us", "bills"):
        queue(admin, name)
    node.publish("orders/us", b"12345")
    where = f"{BASE}/msgVpns/default/queues?select=queueName&where="
    for clause, expected in (
        ("queueName==orders*", ["orders/eu", "orders/us"]),
        ("queueName==orders*,msgSpoolUsage>4", ["orders/us"]),
        ("queueName!=*/*", ["bills"]),
        ("accessType==exclusive,egressEnabled==true,msgSpoolUsage<=0", ["bills", "orders/eu"]),
        ("msgVpnName==other", []),
    ):
        found: Any = admin.ask("GET", where + quote(clause, safe=",=<>!*")).json()
        assert [each["queueName"] for each in found["data"]] == expected


def test_missing_objects_and_forbidden_values_are_reported(admin: RunningAdmin) -> None:
    """SEMP: 400 with code and status; the text says what would do."""
    queue(admin, "q")
    assert error(admin, "/msgVpns/default/queues/none") == (6, "NOT_FOUND", "Could not find match for queue 'none'")
    assert error(admin, "/msgVpns/none/queues")[:2] == (6, "NOT_FOUND")
    assert error(admin, "/msgVpns/default/clients/none")[:2] == (6, "NOT_FOUND")
    queues = "/msgVpns/default/queues"
    for query, word in (
        ("select=colour", "'colour'"),
        ("where=queueName", "NAME==VALUE"),
        ("where=queueName%3E3", "is not a number"),
        ("where=msgSpoolUsage%3Ex", "is a number"),
        ("where=msgs%3E3", "collection"),
        ("count=0", "1 to 100"),
        ("count=101", "1 to 100"),
        ("cursor=*", "cursorQuery"),
        ("colour=red", "unknown parameter 'colour'"),
        ("count=1&count=2", "twice"),
    ):
        code, status, description = error(admin, f"{queues}?{query}")
        assert (code, status) == (11, "INVALID_PARAMETER")
        assert word in description
    assert error(admin, f"{queues}/q?count=3")[1] == "INVALID_PARAMETER"


def test_flows_topics_and_clients_are_collections(admin: RunningAdmin, node: MemoryNode) -> None:
    queue(admin, "q", subscriptions=["a/b", "a/*"])
    flow = FlowView(
        id="7", client="worker", protocol="mqtt", window=9, unacked_count=2, active=True, activity="active-consumer"
    )
    node.flows["q"] = [flow]
    node.clients = [client_view("worker")]
    subscription = Subscription(Subscriber("worker"), 0, None, priorities_of(["P2"]))
    node.space.subscribe(parse_filter("x/+", Syntax.MQTT), "worker", subscription)
    below = "/msgVpns/default/queues/q"
    topics = asked(admin, f"{below}/subscriptions")["data"]
    assert [each["subscriptionTopic"] for each in topics] == ["a/*", "a/b"]
    assert asked(admin, f"{below}/txFlows/7")["data"]["clientName"] == "worker"
    assert asked(admin, "/msgVpns/default/clients?select=clientUsername")["data"] == [{"clientUsername": "ada"}]
    its = "/msgVpns/default/clients/worker"
    assert asked(admin, f"{its}/txFlows?select=queueName,flowId")["data"] == [{"flowId": "7", "queueName": "q"}]
    assert asked(admin, f"{its}/subscriptions?select=-*Name")["data"] == [
        {"subscriptionTopic": "x/+", "dtoPriority": "P2"}
    ]
    assert error(admin, "/msgVpns/default/clients/none/txFlows")[:2] == (6, "NOT_FOUND")
    counts = asked(admin, below)["collections"]
    assert counts == {"msgs": {"count": 0}, "subscriptions": {"count": 2}, "txFlows": {"count": 1}}


def test_profiles_and_their_exceptions_are_shown(admin: RunningAdmin, node: MemoryNode) -> None:
    """SEMP: an ACL profile's exceptions are objects below it; `default` is there always."""
    acl = {
        "name": "sensors",
        "client_connect_exceptions": ["10.0.0.0/8"],
        "publish_topic_exceptions": [{"topic": "s/>"}, {"topic": "m/#", "syntax": "mqtt"}],
    }
    node.authentication = Authentication.model_validate(
        {"acl_profiles": [acl], "client_profiles": [{"name": "small", "max_connection_count": 3}]}
    )
    profiles = asked(admin, "/msgVpns/default/clientProfiles")["data"]
    assert [(each["clientProfileName"], each["maxConnectionCount"]) for each in profiles][1] == ("small", 3)
    found = asked(admin, "/msgVpns/default/aclProfiles/sensors")
    assert found["data"]["publishTopicDefaultAction"] == "disallow"
    assert found["collections"]["publishTopicExceptions"] == {"count": 2}
    below = "/msgVpns/default/aclProfiles/sensors"
    topics = asked(admin, f"{below}/publishTopicExceptions")["data"]
    assert [(each["publishTopicException"], each["publishTopicExceptionSyntax"]) for each in topics] == [
        ("m/#", "mqtt"),
        ("s/>", "smf"),
    ]
    network = asked(admin, f"{below}/clientConnectExceptions/10.0.0.0%2F8")["data"]
    assert network["clientConnectExceptionAddress"] == "10.0.0.0/8"
    assert asked(admin, "/msgVpns/default/aclProfiles/default")["data"]["subscribeTopicDefaultAction"] == "allow"
    assert error(admin, "/msgVpns/default/aclProfiles/none/publishTopicExceptions")[1] == "NOT_FOUND"
    shown: Any = admin.ask("GET", "/profiles").json()
    assert [each["name"] for each in shown["acl_profiles"]] == ["default", "sensors"]


def test_names_have_no_units_and_templates_show_what_their_queues_get(admin: RunningAdmin) -> None:
    """SEMP: `partitionRebalanceDelay` is seconds, and says so in its description only."""
    template = {"name": "t", "queue_name_filter": "tmp*", "partition_rebalance_delay_s": 9}
    assert admin.ask("POST", "/queue-templates", template).status == 201
    data = asked(admin, "/msgVpns/default/queueTemplates/t")["data"]
    assert (data["queueNameFilter"], data["partitionRebalanceDelay"], data["maxBindCount"]) == ("tmp*", 9, 1000)
    assert "owner" not in data


def test_clients_of_one_name_are_all_shown_once_each(admin: RunningAdmin, node: MemoryNode) -> None:
    """Two protocols may each have a client of a name; pages have both."""
    node.clients = [client_view("worker", protocol) for protocol in ("mqtt", "amqp")]
    first = asked(admin, "/msgVpns/default/clients?count=1&select=protocol")
    path = first["meta"]["paging"]["cursorQuery"]
    second = asked(admin, f"/msgVpns/default/clients?count=1&select=protocol&{path}")
    assert {first["data"][0]["protocol"], second["data"][0]["protocol"]} == {"mqtt", "amqp"}
    assert "paging" not in second["meta"]


def test_however_many_clients_there_are_pages_have_them_all(admin: RunningAdmin, node: MemoryNode) -> None:
    """The admin API's own pages end after ten thousand; SEMP's last page has the last client."""
    node.clients = [client_view(f"device-{number:05}") for number in range(10_050)]
    clients = "/msgVpns/default/clients"
    last = asked(admin, f"{clients}?select=clientName&cursor={cursor_after('device-10047')}")
    assert last["meta"]["count"] == 10_050
    assert last["data"] == [{"clientName": "device-10048"}, {"clientName": "device-10049"}]
    found = asked(admin, f"{clients}?count=1&where=clientName==device-1*,uptime==3")
    assert found["meta"]["count"] == 50
    assert asked(admin, f"{clients}?where=clientName==*-10049,msgVpnName==default")["meta"]["count"] == 1


def test_messages_are_read_a_page_at_a_time(admin: RunningAdmin, node: MemoryNode) -> None:
    """SEMP: pages may be short and yet more follow; no payload is shown."""
    queue(admin, "q", access_type="non-exclusive", partition_count=2)
    for size in range(1, 6):
        node.publish("q", b"x" * size, key="k")
    path: str = "/msgVpns/default/queues/q/msgs"
    first = asked(admin, f"{path}?count=2&where=contentSize%3E1&select=msgId,contentSize")
    assert first["data"] == [{"msgId": "0:2", "contentSize": 2}]
    second = asked(admin, f"{path}?count=3&{first['meta']['paging']['cursorQuery']}&select=msgId")
    assert [each["msgId"] for each in second["data"]] == ["0:3", "0:4", "0:5"]
    assert "paging" not in second["meta"]
    one = asked(admin, f"{path}/0:3")["data"]
    assert (one["queueName"], one["partitionKey"], one["contentSize"], one["spooledTime"]) == (
        "q",
        "k",
        3,
        1_700_000_000,
    )
    assert "payload" not in one
    for absent in ("0:6", "0:0", "7:1", "x"):
        assert error(admin, f"{path}/{absent}")[:2] == (6, "NOT_FOUND")
    assert error(admin, f"{path}?cursor=eA")[:2] == (11, "INVALID_PARAMETER")


def test_the_first_delivery_of_a_message_is_no_redelivery(admin: RunningAdmin, node: MemoryNode) -> None:
    """SEMP, redeliveryCount: the number of times the message has been redelivered."""
    queue(admin, "q")
    for delivered in (0, 1, 3):
        node.publish("q", b"x", delivery_count=delivered)
    found = asked(admin, "/msgVpns/default/queues/q/msgs?select=redeliveryCount")
    assert [each["redeliveryCount"] for each in found["data"]] == [0, 0, 2]


@pytest.mark.parametrize("select", ["msg*", "-*Enabled,-*Count", "queueName,msgs"])
def test_select_takes_wildcards_and_leaves_out(admin: RunningAdmin, select: str) -> None:
    queue(admin, "q")
    found = asked(admin, f"/msgVpns/default/queues/q?select={select}")
    shown = set(found["data"])
    if select == "msg*":
        assert shown == {"msgVpnName", "msgSpoolUsage"}
        assert set(found["collections"]) == {"msgs"}
    elif select.startswith("-"):
        assert "queueName" in shown
        assert not [each for each in shown if each.endswith(("Enabled", "Count"))]
    else:
        assert (shown, orjson.dumps(found["collections"])) == ({"queueName"}, b'{"msgs":{"count":0}}')


def test_a_message_vpn_says_what_may_be_retained(admin: RunningAdmin) -> None:
    assert asked(admin, "/msgVpns/default?select=mqttRetainMaxMemory")["data"] == {"mqttRetainMaxMemory": 7}


def test_messages_that_a_queue_did_not_take_have_the_counters_of_the_reference(
    admin: RunningAdmin, node: MemoryNode
) -> None:
    """SEMP: counted whether the publisher was told or not."""
    queue(admin, "q")
    node.refusals["q"] = {"max_msg_size_exceeded": 1, "vpn_usage_exceeded": 2, "spool_usage_exceeded": 4}
    node.drops["q"] = {"max_msg_size_exceeded": 8, "endpoint_disabled": 16}
    data = asked(admin, "/msgVpns/default/queues/q")["data"]
    assert data["maxMsgSizeExceededDiscardedMsgCount"] == 9
    assert data["disabledDiscardedMsgCount"] == 16
    assert data["spoolUsageExceededDiscardedMsgCount"] == 6
    assert data["lowPriorityMsgCongestionDiscardedMsgCount"] == 0


def test_a_bridge_says_whether_it_is_connected_and_why_not(admin: RunningAdmin) -> None:
    """SEMP: msgVpns/{vpn}/bridges; `inboundState` and `inboundFailureReason` are the reference's words."""
    data = asked(admin, "/msgVpns/default/bridges/plant")["data"]
    assert (data["bridgeName"], data["remoteAddress"]) == ("plant", "mqtt://plant.example")
    assert (data["inboundState"], data["inboundFailureReason"]) == ("waiting", "connection refused")
    assert (data["rxMsgCount"], data["txMsgCount"]) == (4, 4)
    assert [each["bridgeName"] for each in asked(admin, "/msgVpns/default/bridges")["data"]] == ["plant"]
