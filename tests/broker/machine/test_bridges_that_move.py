"""Bridges and REST delivery points of a retired broker go to one that stays: they run at one broker at a time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.config.load import load
from sluicegate.gateway.machine.channel import ChannelClosed
from sluicegate.gateway.machine.handing_over import HandingOver, serve
from sluicegate.gateway.machine.messages import ADOPT, CALL, HAS, Call, Left
from sluicegate.gateway.machine.operations.placement import Placement
from sluicegate.gateway.node.vpn import MessageVpn
from sluicegate.gateway.observability.metrics.metric import Sample
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.gateway.views.clients.subscriptions import SmrpQuery
from sluicegate.gateway.views.errors import Refused
from sluicegate.gateway.views.node.runtime import ReloadView
from support.bridges.brokers import all_up, another_broker, bridges, mqtt_url, shows
from support.broker.machine_brokers import MachineBrokers, SiblingBroker
from support.broker.running_broker import RunningBroker
from support.http.web_server import WebServer

POINT = {
    "name": "p",
    "queue_bindings": [{"queue": "q", "post_request_target": "/in"}],
    "rest_consumers": [{"name": "web", "remote_host": "127.0.0.1"}],
}


class Reached:
    """A broker of the test's process, as its supervisor reaches it. `cut` has what it answers lost."""

    def __init__(self, broker: SiblingBroker, *, is_retired: bool) -> None:
        self._broker = broker
        self.is_retired = is_retired
        self.absence = ""
        self.left: Left | None = None
        self.asked: list[str] = []
        self.cut: Callable[[str], bool] = lambda _: False  # given a verb, whether the answer to it is lost
        self.lost: Callable[[str], bool] = lambda _: False  # likewise, whether the request is

    @property
    def name(self) -> str:
        return self._broker.siblings.name

    def doubt(self) -> None:
        """Nothing that all have alike is changed."""

    async def ask(self, verb: str, *arguments: Any) -> Any:
        self.asked.append(verb)
        if self.lost(verb):
            raise ChannelClosed(verb)
        answer = await self._answer(verb, arguments)
        if self.cut(verb):
            raise ChannelClosed(verb)
        return answer

    async def _answer(self, verb: str, arguments: Sequence[Any]) -> Any:
        node = self._broker.node
        if verb in (HAS, ADOPT):
            return await serve(node, verb, *arguments)
        assert verb == CALL
        call: Call = arguments[0]
        return await getattr(NodeOperations(node).in_vpn(call.vpn), call.name)(*call.arguments)


class Supervision:
    """What a supervisor does for brokers of the test's process."""

    def __init__(self, machine: MachineBrokers, count: int = 1) -> None:
        self.machine = machine
        self.brokers = [Reached(each, is_retired=each.number > count) for each in machine.all]
        self.changing = asyncio.Lock()

    async def reload(self) -> list[ReloadView]:
        return []

    def samples(self) -> list[Sample]:
        return []

    def handing_over(self) -> HandingOver:
        """Return what the second broker hands over, as after its start."""
        giver = self.brokers[1]
        return HandingOver(
            self.machine[2].node,
            is_retired=giver.is_retired,
            place=lambda vpn, kind, name: Placement(self, vpn).place(giver, kind, name),
            hand_over=lambda vpn, kind, handed, to: Placement(self, vpn).hand_over(giver, kind, handed, to),
        )


def vpns(machine: MachineBrokers) -> list[MessageVpn]:
    return [each.node.default for each in machine.all]


def where_it_runs(machine: MachineBrokers) -> list[int]:
    """Return the numbers of the brokers at which the bridge runs."""
    return [number for number, vpn in enumerate(vpns(machine), 1) if "b" in vpn.bridges.running]


def where_it_is(machine: MachineBrokers) -> list[int]:
    return [number for number, vpn in enumerate(vpns(machine), 1) if vpn.bridges.handover.names() == ["b"]]


@asynccontextmanager
async def bridged(tmp_path: Path, count: int = 1) -> AsyncIterator[tuple[MachineBrokers, RunningBroker]]:
    """Yield a machine whose second broker has a bridge, and the broker that this leads to."""
    async with another_broker(tmp_path) as other, MachineBrokers(tmp_path / "machine", count=count) as machine:
        rules = [{"remote_topic": "kept/#"}, {"remote_topic": "old/#"}]
        given = {"name": "b", "remote_url": mqtt_url(other), "retry_delay_s": 1, "incoming": rules}
        await NodeOperations(machine[2].node).create_bridge(given)
        await shows(machine[2], all_up)
        yield machine, other


async def restart(machine: MachineBrokers, number: int) -> None:
    await machine[number].stop()
    await machine.start(machine[number])


async def subscribed(other: RunningBroker) -> list[str]:
    """Return the filters of the bridge's session."""
    query = SmrpQuery(destination_name="machine-2-b")
    view = await NodeOperations(other.node).smrp_subscriptions(query)
    return sorted(each.subscription for each in view.subscriptions)


async def test_a_bridge_goes_to_the_broker_that_stays_with_its_session(tmp_path: Path) -> None:
    async with bridged(tmp_path) as (machine, other):
        await Supervision(machine).handing_over().look()
        assert (where_it_is(machine), where_it_runs(machine)) == ([1], [1])
        await shows(machine[1], all_up)
        assert await subscribed(other) == ["kept/#", "old/#"]
        await restart(machine, 1)
        await shows(machine[1], all_up)
        await NodeOperations(machine[1].node).update_bridge("b", {"incoming": [{"remote_topic": "kept/#"}]})
        await shows(machine[1], all_up)
        assert await subscribed(other) == ["kept/#"]


async def test_a_paused_bridge_stays_paused_and_unsubscribes_where_it_is_resumed(tmp_path: Path) -> None:
    """It was changed at the old broker, and has not been connected since."""
    async with bridged(tmp_path) as (machine, other):
        await NodeOperations(machine[2].node).pause_bridge("b")
        await NodeOperations(machine[2].node).update_bridge("b", {"incoming": [{"remote_topic": "kept/#"}]})
        await Supervision(machine).handing_over().look()
        assert (await NodeOperations(machine[1].node).show_bridge("b")).state == "paused"
        assert await subscribed(other) == ["kept/#", "old/#"]
        await NodeOperations(machine[1].node).resume_bridge("b")
        await shows(machine[1], all_up)
        assert await subscribed(other) == ["kept/#"]


@pytest.mark.parametrize("restarted", [(), (1,), (2,), (1, 2)], ids=str)
@pytest.mark.parametrize("is_asked", [False, True], ids=["request-lost", "answer-lost"])
@pytest.mark.parametrize("verb", [CALL, HAS, ADOPT])
async def test_a_step_that_is_lost_leaves_one_bridge(
    tmp_path: Path, verb: str, is_asked: bool, restarted: tuple[int, ...]
) -> None:
    async with bridged(tmp_path) as (machine, _):
        supervision = Supervision(machine)
        target = supervision.brokers[0]
        if is_asked:
            target.cut = lambda each: each == verb
        else:
            target.lost = lambda each: each == verb
        await supervision.handing_over().look()
        assert verb in target.asked
        target.cut = target.lost = lambda _: False
        assert len(where_it_runs(machine)) <= 1
        for number in restarted:
            await restart(machine, number)
            assert len(where_it_runs(machine)) <= 1
        handing_over = supervision.handing_over()
        await handing_over.look()
        assert (where_it_is(machine), where_it_runs(machine)) == ([1], [1])
        assert (handing_over.count("default"), handing_over.obstacles("default")) == (0, [])


@pytest.mark.parametrize("is_there", [False, True])
async def test_a_broker_that_is_not_retired_any_more_asks_who_has_what_it_had_begun_to_hand_over(
    tmp_path: Path, is_there: bool
) -> None:
    async with bridged(tmp_path) as (machine, _):
        supervision = Supervision(machine)
        if is_there:
            supervision.brokers[0].cut = lambda verb: verb == ADOPT
        else:
            supervision.brokers[0].lost = lambda verb: verb == ADOPT
        await supervision.handing_over().look()
        await restart(machine, 2)
        assert where_it_runs(machine) == ([1] if is_there else [])
        await Supervision(machine, count=2).handing_over().run()
        home = 1 if is_there else 2
        assert (where_it_is(machine), where_it_runs(machine)) == ([home], [home])
        await restart(machine, 2)
        assert where_it_runs(machine) == [home]


async def test_a_bridge_whose_handover_had_begun_is_asked_for_also_while_a_configured_one_hides_it(
    tmp_path: Path,
) -> None:
    async with bridged(tmp_path) as (machine, other):
        supervision = Supervision(machine)
        supervision.brokers[0].cut = lambda verb: verb == ADOPT
        await supervision.handing_over().look()
        await machine[2].stop()
        unhidden = machine[2].config
        hiding = bridges({"remote_url": mqtt_url(other), "client_id": "hiding", "incoming": [{"remote_topic": "x/#"}]})
        machine[2].config = load(None, settings=(*machine[2].settings, hiding))
        await machine.start(machine[2])
        await Supervision(machine, count=2).handing_over().run()
        await machine[2].stop()
        machine[2].config = unhidden
        await machine.start(machine[2])
        assert (where_it_is(machine), where_it_runs(machine)) == ([1], [1])


async def test_a_bridge_that_moves_cannot_be_changed_here(tmp_path: Path) -> None:
    async with bridged(tmp_path) as (machine, _):
        supervision = Supervision(machine)
        supervision.brokers[0].lost = lambda verb: verb == ADOPT
        await supervision.handing_over().look()
        operations = NodeOperations(machine[2].node)
        assert (await operations.show_bridge("b")).reason == "moves to broker machine-1"
        with pytest.raises(Refused, match="moves to broker machine-1; try again"):
            await operations.delete_bridge("b")


async def test_a_bridge_of_a_name_that_is_taken_stays_and_runs(tmp_path: Path) -> None:
    async with bridged(tmp_path) as (machine, other):
        given = {"name": "b", "remote_url": mqtt_url(other), "incoming": [{"remote_topic": "other/#"}]}
        await NodeOperations(machine[1].node).create_bridge(given)
        handing_over = Supervision(machine).handing_over()
        await handing_over.look()
        assert where_it_runs(machine) == [1, 2]
        assert handing_over.obstacles("default") == [
            "bridge b: broker machine-1 has another one of this name: delete one of them"
        ]


async def test_a_bridge_that_the_other_broker_refuses_runs_here_and_is_left_alone_for_a_while(
    tmp_path: Path,
) -> None:
    async with bridged(tmp_path) as (machine, other):
        for number in range(100):
            given = {"name": f"b{number}", "enabled": False, "remote_url": mqtt_url(other), "client_id": f"c{number}"}
            await NodeOperations(machine[1].node).create_bridge(given)
        supervision = Supervision(machine)
        handing_over = supervision.handing_over()
        for _ in range(2):
            await handing_over.look()
            assert where_it_runs(machine) == [2]
            [obstacle] = handing_over.obstacles("default")
            assert obstacle == "bridge b: there are 100 of the kind bridge, and may be no more"
        assert supervision.brokers[0].asked.count(ADOPT) == 1


async def test_a_delivery_point_goes_to_the_broker_that_stays(tmp_path: Path) -> None:
    async with WebServer() as server, MachineBrokers(tmp_path, count=1) as machine:
        consumer = {"name": "web", "remote_host": "127.0.0.1", "remote_port": server.port}
        await NodeOperations(machine[2].node).create_rest_delivery_point(POINT | {"rest_consumers": [consumer]})
        supervision = Supervision(machine)
        supervision.brokers[0].cut = lambda verb: verb == ADOPT
        await supervision.handing_over().look()
        await restart(machine, 2)
        assert [list(vpn.rest.running) for vpn in vpns(machine)] == [["p"], []]
        supervision.brokers[0].cut = lambda _: False
        await supervision.handing_over().look()
        assert [vpn.rest.handover.names() for vpn in vpns(machine)] == [["p"], []]
