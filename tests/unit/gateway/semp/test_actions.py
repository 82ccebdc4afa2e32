"""SEMP's actions on queues and their messages, and what it says where there is nothing."""

import re

import pytest
from pydantic import TypeAdapter

from sluicegate.gateway.admin.semp.envelope import Api
from sluicegate.gateway.admin.semp.openapi import document
from sluicegate.gateway.admin.semp.routes import OPERATIONS
from sluicegate.gateway.views.queues.selections import ReplayStart
from support.operations.memory_clients import client_view
from support.operations.memory_node import MemoryNode
from support.operations.running_admin import RunningAdmin
from support.operations.semp_client import refused, semp

QUEUE = "/action/msgVpns/default/queues/q"


@pytest.fixture
def filled(admin: RunningAdmin, node: MemoryNode) -> MemoryNode:
    """Three messages in `q`, which keeps what was settled; none in `other`."""
    admin.ask("POST", "/queues", {"name": "q", "retention_size_mb": 1})
    admin.ask("POST", "/queues", {"name": "other"})
    for _ in range(3):
        node.publish("q", b"x")
    return node


def test_messages_are_deleted_one_by_one_and_all(admin: RunningAdmin, filled: MemoryNode) -> None:
    semp(admin, "PUT", f"{QUEUE}/msgs/0:2/delete", {})
    assert [each.id for each in filled.messages["q"]] == ["0:1", "0:3"]
    for absent in ("0:9", "x"):
        assert refused(admin, "PUT", f"{QUEUE}/msgs/{absent}/delete", {})[1] == "NOT_FOUND"
    semp(admin, "PUT", f"{QUEUE}/deleteMsgs", {})
    assert filled.messages["q"] == []
    assert refused(admin, "PUT", f"{QUEUE}/deleteMsgs", {"all": True})[1] == "INVALID_PARAMETER"


def test_a_message_is_copied_from_another_queue(admin: RunningAdmin, filled: MemoryNode) -> None:
    """SEMP: the action is that of the queue which gets it; what it is called, msgs in the monitor say."""
    msgs = semp(admin, "GET", "/monitor/msgVpns/default/queues/q/msgs?select=replicationGroupMsgId")["data"]
    body = {"sourceQueueName": "q", **msgs[1]}
    other = "/action/msgVpns/default/queues/other/copyMsgFromQueue"
    semp(admin, "PUT", other, body)
    assert [each.id for each in filled.messages["other"]] == ["0:2"]
    assert len(filled.messages["q"]) == 3
    for wrong, word in (
        ({"sourceQueueName": "q"}, "replicationGroupMsgId: it is missing"),
        ({**body, "replicationGroupMsgId": "rmid1:3"}, "such as 0:17"),
        ({**body, "sourceQueueName": ""}, "sourceQueueName: ''"),
    ):
        assert word in refused(admin, "PUT", other, wrong)[2]
    assert refused(admin, "PUT", other, {**body, "sourceQueueName": "none"})[1] == "NOT_FOUND"


def test_a_replay_begins_at_a_time_or_behind_a_message(admin: RunningAdmin, filled: MemoryNode) -> None:
    end = (1 << 63) - 1
    for body in ({}, {"fromTime": 1_700_000_000, "replayLogName": "q"}, {"afterMsg": "0:2"}):
        semp(admin, "PUT", f"{QUEUE}/startReplay", body)
    assert filled.replays == [
        (ReplayStart(), end, None),
        (ReplayStart(since_ms=1_700_000_000_000), end, None),
        (ReplayStart(first=3), end, 0),
    ]
    for wrong in ({"replayLogName": "x"}, {"fromTime": "now"}, {"fromTime": 1, "afterMsg": "0:2"}, {"afterMsg": "7"}):
        assert refused(admin, "PUT", f"{QUEUE}/startReplay", wrong)[1] == "INVALID_PARAMETER"
    other = "/action/msgVpns/default/queues/other/startReplay"
    assert refused(admin, "PUT", other, {})[:2] == (89, "NOT_ALLOWED")


def test_a_client_is_sent_away(admin: RunningAdmin, node: MemoryNode) -> None:
    node.clients = [client_view("worker"), client_view("other")]
    clients = "/action/msgVpns/default/clients"
    semp(admin, "PUT", f"{clients}/worker/disconnect", {})
    assert [each.name for each in node.clients] == ["other"]
    assert refused(admin, "PUT", f"{clients}/worker/disconnect", {})[:2] == (6, "NOT_FOUND")
    assert (admin.ask("DELETE", "/clients/other").status, admin.ask("DELETE", "/clients/other").status) == (204, 404)


def test_unknown_paths_and_methods_are_reported_in_the_envelope(admin: RunningAdmin) -> None:
    assert refused(admin, "GET", "/monitor/colours", status=404)[:2] == (6, "NOT_FOUND")
    assert refused(admin, "GET", "", status=404)[1] == "NOT_FOUND"
    assert refused(admin, "POST", "/monitor/msgVpns", {}, status=405)[:2] == (89, "NOT_ALLOWED")
    answer = admin.ask("DELETE", "/SEMP/v2/config/msgVpns/default/queues")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, POST")
    assert refused(admin, "POST", "/config/msgVpns/default/queues", b"{")[1] == "INVALID_PARAMETER"


@pytest.mark.parametrize("api", ["monitor", "config", "action"])
def test_each_api_has_a_document_that_describes_all_of_it(admin: RunningAdmin, api: Api) -> None:
    described = document(api, OPERATIONS[api])
    assert admin.ask("GET", f"/SEMP/v2/{api}/spec").json() == described
    paths = TypeAdapter(dict[str, dict[str, dict[str, object]]]).validate_python(described["paths"])
    ids = [str(each["operationId"]) for methods in paths.values() for each in methods.values()]
    assert len(ids) == len(set(ids)) == len(OPERATIONS[api])
    components = TypeAdapter(dict[str, dict[str, object]]).validate_python(described["components"])
    assert set(re.findall(r"#/components/schemas/(\w+)", str(described))) <= set(components["schemas"])
    expected = {
        "monitor": "getMsgVpnQueueTxFlows",
        "config": "createMsgVpnQueueSubscription",
        "action": "doMsgVpnQueueDeleteMsgs",
    }
    assert expected[api] in ids
