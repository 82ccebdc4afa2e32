"""HTTP workers share a partitioned queue: one vanishes with messages in its hands, and a web server takes the rest.

Publishers send lines of JSON; each worker polls its flow and settles by URL. Per key messages are settled in order, and
each exactly once.
"""

import asyncio
import re
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
import yaml

from support.http.plain import plain_async_client
from support.http.web_server import WebServer
from support.processes.gateway import GatewayProcess, gateway

WITHIN_S = 120
LOCK_S = 5
KEYS = [f"order-{number}" for number in range(30)]
EACH = 10  # messages of a key

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


class Shop:
    """The workers of one queue, and what they have settled."""

    def __init__(self, node: GatewayProcess) -> None:
        self.settled: dict[str, list[int]] = {key: [] for key in KEYS}
        self._url = node.http_url

    @property
    def settled_count(self) -> int:
        return sum(map(len, self.settled.values()))

    async def publish(self, client: httpx.AsyncClient, first: int, count: int) -> None:
        lines = [
            orjson.dumps({"payload": f"{key} {number}", "headers": {"Sluicegate-Partition-Key": key}})
            for number in range(first, first + count)
            for key in KEYS
        ]
        answer = await client.post("/QUEUE/orders", content=b"\n".join(lines), headers={"Sluicegate-Batch": "ndjson"})
        assert answer.status_code == 200, answer.text

    async def work(self, client: httpx.AsyncClient, may_go_on: Callable[[int], bool]) -> None:
        """Poll and settle; a worker that may not go on vanishes with what it has in its hands."""
        path, binding, count = "/QUEUE/orders", {"lock_s": str(LOCK_S)}, 0
        while self.settled_count < len(KEYS) * EACH:
            query = {"max": "10", "wait_s": "1", **binding}
            answer = await client.get(path, params=query, headers={"Accept": "application/x-ndjson"})
            path, binding = answer.headers["sluicegate-flow"], {}
            lines = [orjson.loads(line) for line in answer.text.splitlines()]
            count += len(lines)
            if not may_go_on(count):
                return
            if lines:
                await self._settle(client, path, lines)

    async def _settle(self, client: httpx.AsyncClient, path: str, lines: list[dict[str, Any]]) -> None:
        numbers = ",".join([str(line["delivery"]) for line in lines])
        answer = await client.post(f"{path}/{numbers}", headers={"Accept": "application/json"})
        not_held = set() if answer.status_code == 204 else set(re.findall(r"\d+", answer.json()["detail"]))
        for line in lines:
            if str(line["delivery"]) not in not_held:
                self.note(line["payload"])

    def note(self, payload: str) -> None:
        key, _, number = payload.rpartition(" ")
        self.settled[key].append(int(number))

    def client(self) -> httpx.AsyncClient:
        return plain_async_client(self._url, timeout=WITHIN_S)

    def check(self) -> None:
        assert self.settled == {key: list(range(EACH)) for key in KEYS}


def test_a_worker_that_vanishes_is_replaced_without_loss_or_disorder(tmp_path: Path) -> None:
    """Time is the only sign of an HTTP worker's end; its partitions and messages go to the others."""
    attributes: dict[str, Any] = {
        "access_type": "non-exclusive",
        "partition_count": 6,
        "partition_rebalance_delay_s": 0,
    }
    with gateway(tmp_path) as node:
        node.create_queue("orders", **attributes)
        shop = Shop(node)

        async def story() -> None:
            async with AsyncExitStack() as stack:
                publisher, first, second, other = [await stack.enter_async_context(shop.client()) for _ in range(4)]
                await shop.publish(publisher, 0, EACH // 2)
                workers = [
                    asyncio.create_task(shop.work(first, lambda _: True)),
                    asyncio.create_task(shop.work(second, lambda _: True)),
                    asyncio.create_task(shop.work(other, lambda count: count < 30)),
                ]
                await shop.publish(publisher, EACH // 2, EACH // 2)
                async with asyncio.timeout(WITHIN_S):
                    await asyncio.gather(*workers)

        asyncio.run(story())
        shop.check()
        assert node.held_count("orders") == 0


def test_a_web_server_gets_each_key_in_order_while_it_fails_now_and_then(tmp_path: Path) -> None:
    """A REST delivery point on a partitioned queue; every fortieth request is answered with 503."""

    async def story() -> None:
        requests = 0
        shop: Shop

        def status(request: Any) -> int:
            nonlocal requests
            requests += 1
            if requests % 40 == 0:
                return 503
            shop.note(request.body.decode())
            return 200

        async with WebServer(status) as server:
            points = [
                {
                    "name": "shop",
                    "queue_bindings": [{"queue": "orders", "post_request_target": "/orders"}],
                    "rest_consumers": [
                        {"name": "erp", "remote_host": "127.0.0.1", "remote_port": server.port, "retry_delay_s": 1}
                    ],
                }
            ]
            settings: dict[str, object] = {
                "rest_delivery_points": yaml.safe_dump(points, default_flow_style=True, width=10_000).strip()
            }
            with gateway(tmp_path, **settings) as node:
                shop = Shop(node)
                await asyncio.to_thread(
                    node.create_queue,
                    "orders",
                    access_type="non-exclusive",
                    partition_count=6,
                    partition_rebalance_delay_s=0,
                )
                async with shop.client() as publisher:
                    await shop.publish(publisher, 0, EACH)
                async with asyncio.timeout(WITHIN_S):
                    while shop.settled_count < len(KEYS) * EACH:
                        await asyncio.sleep(0.05)
                shop.check()

    asyncio.run(story())
