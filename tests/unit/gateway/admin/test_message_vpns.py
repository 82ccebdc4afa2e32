"""Message VPNs over the admin API: made, changed and deleted."""

from typing import Any

import pytest
from pykka import ActorDeadError

from support.operations.memory_node import MemoryNode
from support.operations.running_admin import RunningAdmin


def test_a_message_vpn_is_made_changed_and_deleted(admin: RunningAdmin, node: MemoryNode) -> None:
    """POST answers with its path, which has no message VPN of its own."""
    made = admin.ask("POST", "/message-vpns", {"name": "sales", "usage_bytes_max": "1 GiB"})
    assert (made.status, made.headers["location"]) == (201, "/message-vpns/sales")
    view: Any = made.json()
    assert (view["origin"], view["settings"]["usage_bytes_max"]) == ("operator", 1 << 30)
    changed: Any = admin.ask("PATCH", "/message-vpns/sales", {"enabled": False}).json()
    assert (changed["enabled"], changed["settings"]["usage_bytes_max"]) == (False, 1 << 30)
    assert admin.ask("GET", "/message-vpns/sales").json() == changed
    assert admin.ask("DELETE", "/message-vpns/sales").status == 204
    assert list(node.vpns) == ["default"]


def test_only_force_deletes_one_with_clients(admin: RunningAdmin, node: MemoryNode) -> None:
    """A value that is no truth deletes nothing."""
    admin.ask("POST", "/message-vpns", {"name": "sales"})
    node.full.add("sales")
    for query, status in (("", 409), ("?force=false", 409), ("?force=yes", 422), ("?force=", 422)):
        assert admin.ask("DELETE", f"/message-vpns/sales{query}").status == status
    assert admin.ask("DELETE", "/message-vpns/sales?force=true").status == 204
    assert list(node.vpns) == ["default"]


def test_wrong_requests_are_answered_with_what_is_allowed(admin: RunningAdmin) -> None:
    """RFC 9457, with the field."""
    admin.ask("POST", "/message-vpns", {"name": "sales"})
    for method, path, body, status in (
        ("POST", "/message-vpns", {"name": "sales"}, 409),
        ("POST", "/message-vpns", {"name": "default"}, 422),
        ("POST", "/message-vpns", {}, 422),
        ("POST", "/message-vpns", {"name": "lab", "queues": {}}, 422),
        ("PATCH", "/message-vpns/sales", {"name": "other"}, 422),
        ("PATCH", "/message-vpns/default", {"enabled": False}, 409),
        ("DELETE", "/message-vpns/default?force=true", None, 409),
        ("GET", "/message-vpns/lab", None, 404),
        ("PATCH", "/message-vpns/lab", {}, 404),
        ("DELETE", "/message-vpns/lab", None, 404),
    ):
        answer = admin.ask(method, path, body)
        assert answer.status == status, (method, path, answer.body)


@pytest.mark.parametrize("path", ["/queues", "/SEMP/v2/config/msgVpns/default/queues"])
def test_a_request_whose_message_vpn_is_deleted_meanwhile_is_told_so(
    admin: RunningAdmin,
    node: MemoryNode,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    path: str,
) -> None:
    """Its actors have stopped: no fault of the gateway, and nothing to report in its log."""

    async def gone(**_: object) -> list[object]:
        raise ActorDeadError("sales/queues stopped before handling the message")

    monkeypatch.setattr(node, "list_queues", gone)
    monkeypatch.setattr(node, "queue_names", gone)
    answer = admin.ask("GET", path)
    assert answer.status == 503
    assert b"deleted meanwhile" in answer.body
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []
