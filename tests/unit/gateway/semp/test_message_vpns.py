"""SEMP's config: message VPNs, made, changed and deleted with Solace's names and units."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.operations.admin_accounts import ask, configured
from support.operations.memory_node import MemoryNode
from support.operations.running_admin import RunningAdmin, running_admin
from support.operations.semp_client import BASE, refused, semp

VPNS = "/config/msgVpns"
MB = 1 << 20


def test_a_message_vpn_is_made_changed_replaced_and_deleted(admin: RunningAdmin, node: MemoryNode) -> None:
    """SEMP: the answer has the object; PATCH leaves what it does not name, PUT sets that to its default."""
    body = {"msgVpnName": "sales", "maxMsgSpoolUsage": 1500, "maxConnectionCount": 7, "authenticationBasicType": "none"}
    made = semp(admin, "POST", VPNS, body)
    assert made["links"]["uri"] == f"{admin.url}{BASE}{VPNS}/sales"
    assert made["data"] | body == made["data"] | {"maxMsgSpoolUsage": 1500}
    assert node.vpns["sales"].usage_bytes_max == 1500 * MB
    assert node.vpns["sales"].allow_anonymous is True
    changed = semp(admin, "PATCH", f"{VPNS}/sales", {"enabled": False, "mqttRetainMaxMemory": -1})["data"]
    assert (changed["enabled"], changed["maxConnectionCount"]) == (False, 7)
    assert node.vpns["sales"].retained_bytes_max == 64 << 40
    replaced = semp(admin, "PUT", f"{VPNS}/sales", {"maxEndpointCount": 3})["data"]
    assert (replaced["enabled"], replaced["maxEndpointCount"]) == (True, 3)
    assert replaced["maxConnectionCount"] > 7
    assert semp(admin, "PUT", f"{VPNS}/other", {})["data"]["msgVpnName"] == "other"
    found: Any = semp(admin, "GET", f"{VPNS}?select=msgVpnName")["data"]
    assert [each["msgVpnName"] for each in found] == ["default", "other", "sales"]
    semp(admin, "DELETE", f"{VPNS}/sales")
    assert refused(admin, "GET", f"{VPNS}/sales")[:2] == (6, "NOT_FOUND")


def test_errors_have_solaces_codes_and_say_what_is_allowed(admin: RunningAdmin, node: MemoryNode) -> None:
    """6, 10, 11 and 89; a message VPN with clients or queues cannot be deleted, as on Solace's brokers."""
    semp(admin, "POST", VPNS, {"msgVpnName": "sales"})
    assert refused(admin, "POST", VPNS, {"msgVpnName": "sales"})[:2] == (10, "ALREADY_EXISTS")
    assert refused(admin, "PATCH", f"{VPNS}/none", {"enabled": True})[:2] == (6, "NOT_FOUND")
    assert refused(admin, "DELETE", f"{VPNS}/none")[:2] == (6, "NOT_FOUND")
    node.full.add("sales")
    assert refused(admin, "DELETE", f"{VPNS}/sales")[:2] == (89, "NOT_ALLOWED")
    code, status, text = refused(admin, "DELETE", f"{VPNS}/default")
    assert (code, status) == (89, "NOT_ALLOWED")
    assert "always exists" in text
    for body, said in (
        ({}, "msgVpnName: it is missing"),
        ({"msgVpnName": "1st"}, "msgVpnName: '1st' is not allowed"),
        ({"msgVpnName": "lab", "maxMsgSpoolUsage": "much"}, "maxMsgSpoolUsage: 'much' is not allowed"),
        ({"msgVpnName": "lab", "maxMsgSpoolUsage": -1}, "maxMsgSpoolUsage: -1 is not allowed"),
        ({"msgVpnName": "lab", "maxConnectionCount": -1}, "maxConnectionCount: -1 is not allowed"),
        ({"msgVpnName": "lab", "authenticationBasicType": "ldap"}, "authenticationBasicType: 'ldap' is not allowed"),
        ({"msgVpnName": "lab", "replicationEnabled": True}, "replicationEnabled: this is not an attribute"),
    ):
        code, status, text = refused(admin, "POST", VPNS, body)
        assert (code, status) == (11, "INVALID_PARAMETER")
        assert text.startswith(said), text
    assert sorted(node.vpns) == ["default", "sales"]


@pytest.fixture
def guarded(node: MemoryNode) -> Iterator[RunningAdmin]:
    with running_admin(node, admin=configured()) as running:
        yield running


def test_changing_message_vpns_takes_a_level_of_the_node(guarded: RunningAdmin, node: MemoryNode) -> None:
    """As Solace's global/read-write: whoever may change what is in a message VPN may not remove it."""
    path = f"{BASE}{VPNS}"
    for name in ("reader", "tenant", "guest"):
        for method, where, body in (
            ("POST", path, {"msgVpnName": "sales"}),
            ("PATCH", f"{path}/default", {"enabled": False}),
            ("DELETE", f"{path}/default", None),
            ("POST", "/message-vpns", {"name": "sales"}),
            ("PATCH", "/message-vpns/default", {"enabled": False}),
            ("DELETE", "/message-vpns/default", None),
        ):
            assert ask(guarded, name, method, where, body).status == 403, (name, method, where)
    assert ask(guarded, "tenant", "GET", f"{path}/default").status == 200
    assert ask(guarded, "writer", "POST", path, {"msgVpnName": "sales"}).status == 200
    assert ask(guarded, "writer", "DELETE", "/message-vpns/sales").status == 204
    assert list(node.vpns) == ["default"]
