"""Links as operators see and change them, and links in TLS."""

import asyncio
import logging
from pathlib import Path

import pytest

from sluicegate.actors.messages.data import StoreRefused
from sluicegate.gateway.node.link_queues import LinkQueues
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.clients.subscriptions import SmrpQuery
from sluicegate.gateway.views.errors import LinkAlreadyExists, LinkNotFound, Refused, VpnNotFound
from sluicegate.messaging.queues.definition import QueueInvalid
from support.broker.linked_brokers import Brokers, LinkedBroker, until
from support.broker.operator_views import event_texts
from support.http.plain import plain_async_client
from support.mqtt.raw_client import DEADLINE_S
from support.network.certificates import make_certificates


async def test_a_link_that_an_operator_makes_is_up_and_is_there_after_a_restart(brokers: Brokers) -> None:
    await brokers.add("b", "links.a.url=")
    proxy = await brokers.proxy("a", "b")
    await brokers.add("a")
    node = NodeOperations(brokers["a"].node)

    view = await node.create_link({"name": "b", "url": f"flow://127.0.0.1:{proxy.port}"})
    assert (view.name, view.origin, view.enabled) == ("b", "operator", True)
    await brokers.are_linked()
    view = await node.show_link("b")
    assert (view.up, view.initiator, view.remote_address) == (True, "local", f"127.0.0.1:{proxy.port}")
    assert [(each.vpn_name, each.linked, each.complete) for each in view.message_vpns] == [("default", True, True)]

    await brokers["a"].restart()
    await brokers.are_linked()
    node = NodeOperations(brokers["a"].node)
    await node.update_link("b", {"enabled": False})
    await until(lambda: not brokers["b"].neighbor("a").is_up)
    assert brokers["b"].neighbor("a").reason == "the link was removed"
    assert not (await node.show_link("b")).up

    await node.update_link("b", {"enabled": True})
    await brokers.are_linked()
    await node.delete_link("b")
    await until(lambda: not brokers["b"].neighbor("a").is_up)
    assert (await node.list_links()).links == []


async def test_wrong_links_are_refused(brokers: Brokers, tmp_path: Path) -> None:
    await brokers.add("a", "links.b.url=")
    node = NodeOperations(brokers["a"].node)
    with pytest.raises(LinkAlreadyExists):
        await node.create_link({"name": "b"})
    with pytest.raises(LinkNotFound):
        await node.show_link("c")
    with pytest.raises(Refused, match="is configured"):
        await node.delete_link("b")
    with pytest.raises(QueueInvalid, match="that is this broker itself"):
        await node.create_link({"name": "a"})
    with pytest.raises(QueueInvalid, match="is no URL of a broker"):
        await node.create_link({"name": "c", "url": "c:55555"})
    missing = {"name": "c", "username": "u", "password_file": str(tmp_path / "missing")}
    with pytest.raises(Refused, match=r"password_file .* No such file"):
        await node.create_link(missing)


async def test_a_broker_without_a_name_of_its_own_makes_no_link(brokers: Brokers) -> None:
    broker = await brokers.add("a", start=False)
    broker.settings = tuple(each for each in broker.settings if not each.startswith("node.name"))
    broker.reads_settings()
    await broker.start()
    with pytest.raises(Refused, match=r"set node\.name"):
        await NodeOperations(broker.node).create_link({"name": "b"})


async def test_subscriptions_of_neighbors_are_listed_with_type_r(brokers: Brokers) -> None:
    await brokers.pair()
    await brokers.are_linked()
    subscriber = await brokers["b"].connect("subscriber")
    await subscriber.subscribe("plant/+", "$share/crew/office/#")
    await until(lambda: len(brokers["a"].wants("b")) == 2)

    view = await NodeOperations(brokers["a"].node).smrp_subscriptions(SmrpQuery())
    rows = [(each.destination_name, each.destination_type, each.subscription) for each in view.subscriptions]
    assert rows == [("b", "R", "#share/crew/office/#"), ("b", "R", "plant/*")]
    assert {each.redundancy for each in view.subscriptions} == {"-"}
    assert view.exported
    view = await NodeOperations(brokers["a"].node).smrp_subscriptions(SmrpQuery(topic="plant/1"))
    assert [each.subscription for each in view.subscriptions] == ["plant/*"]


async def test_links_are_counted(brokers: Brokers) -> None:
    await brokers.pair()
    await brokers.are_linked()
    samples = await NodeOperations(brokers["a"].node).metrics_snapshot()
    found = {each.name: each.value for each in samples if each.labels[:1] == ("b",)}
    assert found["sluicegate_link_up"] == 1
    assert found["sluicegate_link_connects_total"] == 1
    assert {each.vpn for each in samples if each.name == "sluicegate_link_exported_interests"} == {"default"}


async def test_a_link_in_tls_logs_in_by_its_certificate(brokers: Brokers, tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    await brokers.add(
        "b",
        "links.a.url=",
        "authentication.allow_anonymous=false",
        *certificates.in_tls("listeners.flow_tls"),
        f"listeners.flow_tls.client_ca={certificates.authority}",
    )
    port = brokers["b"].node.flow.listeners["flow_tls"].port
    link = (
        f"links.b.url=flows://localhost:{port}",
        f"links.b.tls_authorities_file={certificates.authority}",
        f"links.b.client_certificate_file={certificates.server}",
        f"links.b.client_certificate_key_file={certificates.server_key}",
    )
    await brokers.add("a", *link)
    await brokers.are_linked()

    wire = brokers["a"].neighbor("b").wire
    assert wire is not None
    assert wire.is_encrypted


async def test_a_neighbor_is_bound_to_the_name_of_its_certificate(brokers: Brokers, tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    tls = (*certificates.in_tls("listeners.flow_tls"), f"listeners.flow_tls.client_ca={certificates.authority}")
    await brokers.add("b", "links.a.url=", "links.a.peer_username=device-8", *tls)
    link = (
        f"links.b.url=flows://localhost:{brokers['b'].node.flow.listeners['flow_tls'].port}",
        f"links.b.tls_authorities_file={certificates.authority}",
        f"links.b.client_certificate_file={certificates.client}",
        f"links.b.client_certificate_key_file={certificates.client_key}",
    )
    await brokers.add("a", *link)
    refusal = "the link to 'a' does not allow user 'device-7': it has another peer_username"
    await until(lambda: brokers["a"].neighbor("b").reason == refusal, "the name of another certificate is refused")

    await brokers["b"].restart("links.a.peer_username=device-7")
    port = brokers["b"].node.flow.listeners["flow_tls"].port
    await brokers["a"].restart(f"links.b.url=flows://localhost:{port}")
    await brokers.are_linked()


async def test_a_neighbor_with_a_certificate_of_a_foreign_authority_is_not_trusted(
    brokers: Brokers, tmp_path: Path
) -> None:
    certificates = make_certificates(tmp_path)
    await brokers.add("b", "links.a.url=", *certificates.in_tls("listeners.flow_tls"))
    port = brokers["b"].node.flow.listeners["flow_tls"].port
    await brokers.add("a", f"links.b.url=flows://localhost:{port}")

    await until(lambda: "certificate" in brokers["a"].neighbor("b").reason.lower())
    assert not brokers["a"].neighbor("b").is_up


async def test_semp_shows_the_network_and_its_links(brokers: Brokers) -> None:
    await brokers.pair(a=("admin.enabled=true", "admin.port=0"))
    await brokers.are_linked()
    port = brokers["a"].operator_ports.listeners()[0].port
    async with plain_async_client(f"http://127.0.0.1:{port}") as client:
        networks = (await client.get("/SEMP/v2/monitor/dmrClusters")).json()["data"]
        links = (await client.get("/SEMP/v2/monitor/dmrClusters/default/links")).json()["data"]
        wrong = await client.get("/SEMP/v2/monitor/dmrClusters/other/links")

    assert [(each["dmrClusterName"], each["nodeName"], each["upLinkCount"]) for each in networks] == [
        ("default", "a", 1)
    ]
    assert [(each["remoteNodeName"], each["up"], each["initiator"]) for each in links] == [("b", True, "local")]
    assert wrong.json()["meta"]["error"]["status"] == "NOT_FOUND"


async def test_a_link_that_is_missing_in_the_mesh_is_seen_until_it_is_there(brokers: Brokers) -> None:
    """`c` is linked to `b` only: what is published at `a` does not reach it, and without this nobody would know."""
    patient = "dead_time_ms=60000"
    await brokers.add("c", "links.b.url=", f"links.b.{patient}", "links.a.url=", f"links.a.{patient}")
    to_c = brokers["c"].flow_port
    await brokers.add("b", f"links.c.url=flow://127.0.0.1:{to_c}", f"links.c.{patient}", "links.a.url=")
    await brokers.add("a", f"links.b.url=flow://127.0.0.1:{brokers['b'].flow_port}", f"links.b.{patient}")
    await brokers.are_linked("a", "b")
    await brokers.are_linked("b", "c")
    node = NodeOperations(brokers["a"].node)
    assert (await node.list_links()).missing_links == []

    brokers["a"].forward(11)
    missing = "SYSTEM_NETWORK_LINK_MISSING"
    await seen(brokers["a"], missing)
    [text] = await event_texts(brokers["a"], missing)
    assert text.endswith("there is no link to broker c in message VPN default, which is linked to b")
    [view] = (await node.list_links()).missing_links
    assert (view.name, view.vpn_name, view.linked_neighbors) == ("c", "default", ["b"])
    samples = {each.name: each.value for each in await node.metrics_snapshot()}
    assert samples["sluicegate_link_missing"] == 1
    assert await event_texts(brokers["b"], missing) == []

    await node.create_link({"name": "c", "url": f"flow://127.0.0.1:{to_c}"})
    await seen(brokers["a"], f"{missing}_CLEAR")
    assert (await node.list_links()).missing_links == []


async def seen(broker: LinkedBroker, event: str) -> None:
    """Wait for an event."""
    async with asyncio.timeout(DEADLINE_S):
        while not await event_texts(broker, event):
            await asyncio.sleep(0.01)


async def test_a_message_vpn_that_an_operator_makes_is_linked_before_its_first_client(brokers: Brokers) -> None:
    """And its link's queue follows its quota. That queue alone keeps nobody from deleting the message VPN."""
    await brokers.pair(a=("links.b.vpns.lab=lab",), b=("links.a.vpns.lab=lab",))
    broker = brokers["a"]
    node = NodeOperations(broker.node)
    await node.create_message_vpn({"name": "lab", "usage_bytes_max": "10 MiB"})
    [link] = broker.neighbor("b").vpns
    gate = link.queue_sender.queue.target.gate
    before = gate.usage_bytes_max
    assert 0 < before <= 10 << 20

    await node.update_message_vpn("lab", {"usage_bytes_max": "40 MiB"})
    assert gate.usage_bytes_max >= 3 * before

    await node.delete_message_vpn("lab", force=False)
    assert "lab" not in broker.node.vpns


async def test_a_message_vpn_that_a_link_has_no_longer_can_be_forgotten_alone(brokers: Brokers) -> None:
    lab = "vpns.lab.enabled=true"
    linked = ("links.b.vpns.default=default", "links.b.vpns.lab=lab")
    await brokers.pair(a=(lab, *linked), b=(lab, "links.a.vpns.default=default", "links.a.vpns.lab=lab"))
    await brokers.are_linked()
    broker = brokers["a"]
    node, in_lab = NodeOperations(broker.node), NodeOperations(broker.node, "lab")
    with pytest.raises(Refused, match="in message VPN lab: take it out of vpns"):
        await node.forget_neighbor("b", vpn="lab", force=True)
    with pytest.raises(VpnNotFound):
        await node.forget_neighbor("b", vpn="other", force=True)

    broker.settings = tuple(each for each in broker.settings if each != linked[1])
    broker.reads_settings()
    await broker.node.reload(broker.config)
    assert "#link/b" in await in_lab.queue_names()
    await node.forget_neighbor("b", vpn="lab", force=False)
    assert "#link/b" not in await in_lab.queue_names()
    assert "#link/b" in await node.queue_names()
    await until(lambda: broker.neighbor("b").is_up, "the other one is linked")


async def test_a_link_queue_that_cannot_be_made_is_logged_once_and_tried_again_later(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await brokers.add("a", "links.b.url=")
    links = broker.node.links
    tried: list[str] = []

    async def fails(self: LinkQueues, vpn: object, name: str, link: object) -> None:
        tried.append(name)
        raise StoreRefused("the disk is full")

    monkeypatch.setattr(LinkQueues, "_make_queue", fails)
    logged: list[str] = []

    def is_expected(record: logging.LogRecord) -> bool:
        if "could not be made: the disk is full" not in record.getMessage():
            return True
        logged.append(record.getMessage())
        return False

    caplog.handler.addFilter(is_expected)
    await links.prepare()
    for _ in range(5):
        links.tick()
        await asyncio.sleep(0)
    assert tried == ["b"]
    for count in (2, 3):
        broker.clock.forward(6)
        links.tick()
        await until(lambda: len(tried) == count, "it is tried again")  # noqa: B023
    assert len(logged) == 1
