"""SEMP's config: links of the network, made, changed and deleted with the names of Solace's DMR clusters."""

from support.operations.admin_accounts import ask, configured
from support.operations.memory_node import MemoryNode
from support.operations.running_admin import RunningAdmin, running_admin
from support.operations.semp_client import BASE, refused, semp

LINKS = "/config/dmrClusters/default/links"


def test_a_link_is_made_given_an_address_changed_and_deleted(admin: RunningAdmin, node: MemoryNode) -> None:
    made = semp(admin, "POST", LINKS, {"remoteNodeName": "b", "enabled": False})["data"]
    assert (made["remoteNodeName"], made["enabled"]) == ("b", False)
    address = semp(admin, "POST", f"{LINKS}/b/remoteAddresses", {"remoteAddress": "b.example:55555"})["data"]
    assert address["remoteAddress"] == "b.example:55555"
    assert node.links["b"].url == "flow://b.example:55555"

    changed = semp(admin, "PATCH", f"{LINKS}/b", {"enabled": True, "transportCompressedEnabled": True})["data"]
    assert (changed["enabled"], changed["transportCompressedEnabled"]) == (True, True)
    assert node.links["b"].url == "flow://b.example:55555"

    semp(admin, "DELETE", f"{LINKS}/b/remoteAddresses/b.example:55555")
    assert node.links["b"].url == ""
    assert semp(admin, "GET", f"{LINKS}/b/remoteAddresses")["data"] == []
    semp(admin, "POST", f"{LINKS}/b/remoteAddresses", {"remoteAddress": "flows://b.example"})
    assert node.links["b"].url == "flows://b.example"
    assert semp(admin, "GET", f"{LINKS}?select=remoteNodeName")["data"] == [{"remoteNodeName": "b"}]
    semp(admin, "DELETE", f"{LINKS}/b")
    assert node.links == {}


def test_errors_of_links_have_solaces_codes_and_say_what_is_allowed(admin: RunningAdmin) -> None:
    semp(admin, "POST", LINKS, {"remoteNodeName": "b"})
    assert refused(admin, "POST", LINKS, {"remoteNodeName": "b"})[:2] == (10, "ALREADY_EXISTS")
    assert refused(admin, "PATCH", f"{LINKS}/c", {"enabled": True})[:2] == (6, "NOT_FOUND")
    assert refused(admin, "POST", LINKS.replace("default", "other"), {"remoteNodeName": "c"})[:2] == (6, "NOT_FOUND")
    code, status, text = refused(admin, "POST", f"{LINKS}/b/remoteAddresses", {"remoteAddress": "http://b"})
    assert (code, status) == (11, "INVALID_PARAMETER")
    assert text.startswith("remoteAddress: ")
    semp(admin, "POST", f"{LINKS}/b/remoteAddresses", {"remoteAddress": "one"})
    code, status, text = refused(admin, "POST", f"{LINKS}/b/remoteAddresses", {"remoteAddress": "two"})
    assert (code, status) == (89, "NOT_ALLOWED")
    assert "the link has an address, one" in text
    assert refused(admin, "DELETE", f"{LINKS}/b/remoteAddresses/two")[:2] == (6, "NOT_FOUND")


def test_changing_links_takes_a_level_of_the_node(node: MemoryNode) -> None:
    with running_admin(node, admin=configured()) as guarded:
        for name in ("reader", "tenant", "guest"):
            assert ask(guarded, name, "POST", BASE + LINKS, {"remoteNodeName": "b"}).status == 403, name
        assert ask(guarded, "writer", "POST", BASE + LINKS, {"remoteNodeName": "b"}).status == 200
        assert ask(guarded, "reader", "GET", BASE + LINKS).status == 200
