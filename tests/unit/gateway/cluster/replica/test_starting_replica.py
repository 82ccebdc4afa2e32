"""A replica that starts, and has no connection to the NATS servers yet, answers operators."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
from starlette.requests import Request

from sluicegate.gateway.admin.problems import answer_error
from sluicegate.gateway.cluster.membership.operations import Membership
from sluicegate.gateway.cluster.replica.ownership import Ownership
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.sections.cluster import Cluster
from sluicegate.gateway.config.sections.node import Node
from sluicegate.gateway.views.errors import NotReady

ASKED: dict[str, Callable[[Ownership, Membership], Awaitable[object]]] = {
    "add": lambda _, membership: membership.add("c", ""),
    "remove": lambda _, membership: membership.remove("b"),
    "brokers": lambda _, membership: membership.brokers(),
    "hand over": lambda ownership, _: ownership.ask_owner("b"),
}


@pytest.mark.parametrize("what", ASKED)
def test_what_needs_the_servers_is_refused_for_now(what: str) -> None:
    async def ask() -> None:
        cluster = Cluster(servers=("nats://127.0.0.1:1",), replica="a", replicas=("a", "b"))
        ownership = Ownership(
            Config(node=Node(name="edge"), cluster=cluster),
            "instance",
            is_caught_up=lambda: False,
            state=pytest.fail,
            changed=lambda change: pytest.fail(str(change)),
            asked=pytest.fail,
            removed=lambda: pytest.fail("removed"),
            task_ended=lambda name, error: pytest.fail(f"{name}: {error}"),
        )
        try:
            await ASKED[what](ownership, Membership(ownership.asked_of_servers, ownership.names, ownership.members))
        finally:
            await ownership.close()

    with pytest.raises(NotReady, match="replica a starts") as raised:
        asyncio.run(ask())
    answer = asyncio.run(answer_error(cast(Request, None), raised.value))
    assert answer.status_code == 503
