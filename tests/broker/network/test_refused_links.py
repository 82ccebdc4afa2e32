"""Links that are refused: both brokers say why, count it, and show it."""

import asyncio
from dataclasses import replace

import pytest

from sluicegate.gateway.config.load import load
from sluicegate.protocols.flow.codec import codes
from sluicegate.protocols.flow.codec.frames.link import Link
from sluicegate.protocols.flow.codec.frames.session import Error
from sluicegate.protocols.network.link.neighbor import Neighbor
from sluicegate.storage.records.batch import BATCH_FORMAT
from support.broker.linked_brokers import MAY_LINK, Brokers, until
from support.broker.operator_views import event_texts
from support.flow.client import FlowClient

DENIED = "permission_denied"
MAY_NOT_LINK = (f"{MAY_LINK[1].partition('=')[0]}=false",)
LINK_OF_A = Link(1, "a", 7, "default", (1,), 3_000, (), (("default", "default"),), is_response=False)


async def is_refused(neighbor: Neighbor, code: str) -> str:
    """Wait until a link was refused for this reason; return the words."""
    await until(lambda: code in neighbor.counts.refusals, f"{code} at {neighbor.name}: {neighbor.reason}")
    assert not neighbor.is_up
    return neighbor.reason


async def test_a_broker_of_another_network_is_refused(brokers: Brokers) -> None:
    await brokers.pair(a=("node.network=office",), b=("node.network=plant",))

    text = "'a' is in network 'office', and 'b' in 'plant'"
    for one, other in ("ab", "ba"):
        assert await is_refused(brokers[one].neighbor(other), "link_network_differs") == text


async def test_a_user_without_the_right_is_refused(brokers: Brokers) -> None:
    """By default no client may link."""
    await brokers.pair(b=MAY_NOT_LINK)

    assert "allow_bridge_connections_enabled is false" in await is_refused(brokers["a"].neighbor("b"), DENIED)
    assert brokers["b"].node.links.links.refused.counts[DENIED] > 0
    assert not brokers["b"].neighbor("a").counts.refusals, "a client has used its name"


async def test_a_client_that_may_not_link_says_nothing_of_the_neighbor_whose_name_it_uses(brokers: Brokers) -> None:
    """Nor does it fill the event log: its connections end, and one event tells of all of them."""
    await brokers.pair(b=MAY_NOT_LINK)
    await is_refused(brokers["a"].neighbor("b"), DENIED)
    broker = brokers["b"]
    reason = broker.neighbor("a").reason
    for _ in range(20):
        client = FlowClient(broker.flow_port)
        await client.open()
        client.send(LINK_OF_A.encode())
        assert (await client.heard(Error)).code == codes.PERMISSION_DENIED
        await client.ended()

    assert broker.node.links.links.refused.counts[DENIED] > 20
    assert broker.node.services.runtime.events.record.counts["SYSTEM_NETWORK_LINK_REJECTED"] == 1
    assert broker.neighbor("a").reason == reason
    assert not broker.neighbor("a").counts.refusals


async def test_another_account_than_the_neighbors_own_is_no_neighbor(brokers: Brokers) -> None:
    """Else any account with the right to link gets the messages of a neighbor that is away."""
    folder = brokers.folder
    (folder / "password").write_text("correct horse\n")
    accounts = [
        each
        for number, name in enumerate(("network", "other"))
        for each in (
            f"authentication.users.{number}.name={name}",
            f"authentication.users.{number}.password_file={folder / 'password'}",
        )
    ]
    login = ("links.b.username=other", f"links.b.password_file={folder / 'password'}")
    own = "links.a.peer_username=network"
    await brokers.pair(a=login, b=("authentication.allow_anonymous=false", own, *accounts))

    text = "the link to 'a' does not allow user 'other': it has another peer_username"
    assert await is_refused(brokers["a"].neighbor("b"), DENIED) == text
    assert not brokers["b"].neighbor("a").counts.refusals
    assert brokers["b"].node.links.links.refused.counts[DENIED] > 0
    (event,) = await event_texts(brokers["b"], "SYSTEM_NETWORK_LINK_REJECTED")
    assert text in event

    await brokers["a"].restart("links.b.username=network")
    await brokers.are_linked()


async def test_a_broker_that_the_other_does_not_know_is_refused(brokers: Brokers) -> None:
    await brokers.pair(b=("links.a.enabled=false", "links.c.url="))

    text = "broker 'b' has no link to 'a'; it has links to c"
    assert await is_refused(brokers["a"].neighbor("b"), "link_not_configured") == text
    assert brokers["b"].node.links.links.refused.counts["link_not_configured"] > 0
    events = brokers["b"].node.services.runtime.events.record.counts
    assert events["SYSTEM_NETWORK_LINK_REJECTED"] > 0


async def test_two_brokers_of_one_name_are_refused(brokers: Brokers) -> None:
    """Here `a` finds another `a` where it expects `b`; and `b` gets two that say they are `a`."""
    await brokers.pair()
    await brokers.are_linked()
    proxy = await brokers.proxy("x", "b")
    await brokers.add("x", "node.name=a", f"links.b.url=flow://127.0.0.1:{proxy.port}")

    reason = await is_refused(brokers["x"].neighbor("b"), "link_name_taken")
    assert reason == "another broker of the name 'a' is linked to 'b' already"
    assert brokers["b"].neighbor("a").counts.refusals["link_name_taken"] > 0
    assert brokers["a"].is_linked_to("b")


async def test_a_broker_with_the_name_of_the_one_it_connects_to_is_refused(brokers: Brokers) -> None:
    proxy = await brokers.proxy("x", "b")
    await brokers.add("b", "links.a.url=")
    await brokers.proxy("x", "b")
    await brokers.add("x", "node.name=b", f"links.c.url=flow://127.0.0.1:{proxy.port}")

    assert await is_refused(brokers["x"].neighbor("c"), "link_name_taken") == "both brokers have the name 'b'"


async def test_a_broker_that_is_linked_to_itself_says_so(brokers: Brokers) -> None:
    proxy = await brokers.proxy("a", "a")
    await brokers.add("a", f"links.b.url=flow://127.0.0.1:{proxy.port}")
    await brokers.proxy("a", "a")

    assert await is_refused(brokers["a"].neighbor("b"), "link_name_taken") == "it is linked to itself"


async def test_a_broker_with_another_name_than_the_links_is_refused(brokers: Brokers) -> None:
    proxy = await brokers.proxy("a", "c")
    await brokers.add("c", "links.a.url=")
    await brokers.proxy("a", "c")
    await brokers.add("a", f"links.b.url=flow://127.0.0.1:{proxy.port}")

    reason = await is_refused(brokers["a"].neighbor("b"), "link_name_differs")
    assert reason == f"the broker at 127.0.0.1:{proxy.port} has the name 'c', not 'b'"
    await until(lambda: "link_name_differs" in brokers["c"].neighbor("a").counts.refusals)


async def test_a_link_without_a_common_message_vpn_is_refused(brokers: Brokers) -> None:
    """A message VPN that is shut down is linked to none."""
    await brokers.pair(
        a=('links.b.vpns={"sales": "sales"}', "vpns.sales.enabled=true"),
        b=('links.a.vpns={"sales": "sales", "default": "other"}', "vpns.sales.enabled=false"),
    )

    for one, other in ("ab", "ba"):
        assert "no message VPN is linked at both ends" in await is_refused(brokers[one].neighbor(other), "link_no_vpn")


async def test_a_wrong_password_is_told_to_the_broker_that_connects(brokers: Brokers) -> None:
    folder = brokers.folder
    (folder / "right").write_text("correct horse\n")
    (folder / "wrong").write_text("battery staple\n")
    user = (
        "authentication.allow_anonymous=false",
        "authentication.users.0.name=network",
        f"authentication.users.0.password_file={folder / 'right'}",
    )
    login = ("links.b.username=network", f"links.b.password_file={folder / 'wrong'}")
    await brokers.pair(a=login, b=user)

    reason = await is_refused(brokers["a"].neighbor("b"), "not_authenticated")
    assert "does not accept these credentials" in reason
    assert brokers["b"].node.flow.counters.refused["not_authenticated"] > 0

    await brokers["a"].restart(f"links.b.password_file={folder / 'right'}")
    await brokers.are_linked()


async def test_a_neighbor_that_does_not_answer_is_dialled_once_at_a_time(brokers: Brokers) -> None:
    proxy = await brokers.proxy("a", "b")
    proxy.freeze()
    await brokers.add("b", "links.a.url=")
    await brokers.proxy("a", "b")
    await brokers.add("a", f"links.b.url=flow://127.0.0.1:{proxy.port}")
    await until(lambda: proxy.accepted_count > 0)
    await asyncio.sleep(0.6)  # the second attempt would come within half a second
    assert proxy.accepted_count == 1
    assert brokers["a"].neighbor("b").counts.dials == 1

    proxy.heal()
    await brokers.are_linked()


async def test_a_reload_adds_changes_and_removes_links(brokers: Brokers) -> None:
    await brokers.pair()
    await brokers.are_linked()
    broker = brokers["a"]
    first = broker.neighbor("b")

    await broker.node.reload(broker.config)
    assert broker.neighbor("b") is first, "nothing has changed"

    changed = load(settings=(*broker.settings, "links.b.dead_time_ms=5000"))
    changes = await broker.node.reload(changed)
    assert [str(each) for each in changes.reloadable] == ["links.b.dead_time_ms: 3000 -> 5000"]
    await brokers.are_linked()
    assert broker.neighbor("b") is not first

    without = load(settings=[each for each in broker.settings if not each.startswith("links.")])
    changes = await broker.node.reload(without)
    assert [str(each) for each in changes.reloadable] == ["links.b: true -> false"]
    await until(lambda: brokers["b"].neighbor("a").reason == "the link was removed")
    await broker.node.reload(changed)
    await brokers.are_linked()


async def test_a_message_vpn_that_is_shut_down_leaves_the_link(brokers: Brokers) -> None:
    sales = ("vpns.sales.enabled=true",)
    await brokers.pair(a=(*sales, "links.b.vpns.sales=sales"), b=(*sales, "links.a.vpns.sales=sales"))
    brokers["a"].config = load(settings=(*brokers["a"].settings, "links.b.vpns.default=default"))
    await brokers.are_linked()

    await brokers["b"].node.reload(load(settings=(*brokers["b"].settings, "vpns.sales.enabled=false")))
    await until(lambda: not brokers["b"].neighbor("a").vpns)
    assert "no message VPN" in await is_refused(brokers["a"].neighbor("b"), "link_no_vpn")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (["links.b.url=flow://h"], "node.name is missing"),
        (["node.name=a", "links.b.url=http://h"], "is no URL of a broker: flow://HOST"),
        (["node.name=a", "links.b.username=u"], "password_file go together"),
        (["node.name=a", "links.b.url=flow://h", "links.b.tls_authorities_file=/x"], "begins with flows://"),
        (["node.name=a", 'links.b.export_exclude=["a//b"]'], "the level is empty"),
        (["node.name=a", "links.b.dead_time_ms=100"], "from 1500 to 600000"),
    ],
)
def test_wrong_settings_are_refused_with_a_reason(settings: list[str], problem: str) -> None:
    with pytest.raises(Exception, match=problem):
        load(settings=settings)


@pytest.mark.parametrize("features", [("batches-9999",), ("batches-1", "batches-9999")])
async def test_a_broker_that_writes_messages_in_an_unknown_form_is_refused(
    brokers: Brokers, features: tuple[str, ...]
) -> None:
    """It would be cut off at its first such message otherwise, and with every connection again."""
    broker = await brokers.add("b", "links.a.url=")
    client = FlowClient(broker.flow_port)
    await client.open()
    client.send(replace(LINK_OF_A, features=features).encode())
    assert (await client.heard(Error)).code == codes.LINK_VERSION_UNKNOWN
    await client.ended()
    assert (
        f"'a' writes messages as {', '.join(features)}, and 'b' as batches-{BATCH_FORMAT}"
        in (await event_texts(broker, "SYSTEM_NETWORK_LINK_REJECTED"))[0]
    )


async def test_a_broker_of_a_release_that_says_nothing_of_the_form_is_linked(brokers: Brokers) -> None:
    broker = await brokers.add("b", "links.a.url=")
    client = FlowClient(broker.flow_port)
    await client.open()
    client.send(LINK_OF_A.encode())
    answer = await client.heard(Link)
    assert f"batches-{BATCH_FORMAT}" in answer.features
    client.cut()
    await client.ended()
