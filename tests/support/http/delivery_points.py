"""REST delivery points of a broker under test: their configuration, and the results of their pushes."""

import asyncio
from typing import Any

import yaml

from sluicegate.gateway.config.load import load
from sluicegate.gateway.operations.node import NodeOperations
from support.broker.running_broker import RunningBroker
from support.http.web_server import Pushed, WebServer
from support.mqtt.raw_client import DEADLINE_S


def point(server: WebServer, *queues: str, binding: dict[str, Any] | None = None, **consumer: Any) -> str:
    """Return the setting of one delivery point."""
    bindings = [{"queue": queue, "post_request_target": "/in", **(binding or {})} for queue in queues]
    told = {"name": "web", "remote_host": "127.0.0.1", "remote_port": server.port, "retry_delay_s": 1, **consumer}
    value = [{"name": "p", "queue_bindings": bindings, "rest_consumers": [told]}]
    return "rest_delivery_points=" + yaml.safe_dump(value, default_flow_style=True).strip()


async def configure(broker: RunningBroker, *settings: str) -> None:
    """Have the broker take over a configuration with these settings beside its own."""
    await broker.node.reload(load(None, settings=(*broker.settings, *settings)))


async def until_settled(broker: RunningBroker, queue: str) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while (view := await NodeOperations(broker.node).show_queue(queue)).ready_count or view.unacked_count:
            await asyncio.sleep(0.01)


def bodies(requests: list[Pushed]) -> list[str]:
    return [each.body.decode() for each in requests]
