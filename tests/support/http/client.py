"""An HTTP client of a broker under test, in terms of messaging: publish, poll, settle, and events of a stream."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import orjson

from sluicegate.gateway.operations.node import NodeOperations
from support.broker.running_broker import RunningBroker
from support.http.plain import plain_async_client
from support.mqtt.raw_client import DEADLINE_S

LINES = {"Accept": "application/x-ndjson"}
EVENTS = {"Accept": "text/event-stream"}


def http_url(broker: RunningBroker) -> str:
    return f"http://127.0.0.1:{broker.node.http.listeners['http'].port}"


@asynccontextmanager
async def http_client(broker: RunningBroker, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with plain_async_client(http_url(broker), timeout=DEADLINE_S, **options) as client:
        yield client


async def create(broker: RunningBroker, name: str, **attributes: object) -> None:
    await NodeOperations(broker.node).create_queue({"name": name, **attributes})


async def ready_count(broker: RunningBroker, name: str) -> int:
    return (await NodeOperations(broker.node).show_queue(name)).ready_count


async def publish(client: httpx.AsyncClient, queue: str, *payloads: str, key: str = "") -> None:
    headers = {"Sluicegate-Partition-Key": key} if key else {}
    for payload in payloads:
        answer = await client.post(f"/QUEUE/{queue}", content=payload, headers=headers)
        assert answer.status_code == 200, answer.text


async def poll(client: httpx.AsyncClient, path: str, **query: object) -> tuple[str, list[dict[str, Any]]]:
    """Return the flow's path and the messages of one answer, as lines of JSON have them."""
    answer = await client.get(
        path, params={"max": 100, **{name: str(each) for name, each in query.items()}}, headers=LINES
    )
    assert answer.status_code in (200, 204), answer.text
    assert answer.headers["cache-control"] == "no-store"
    return answer.headers["sluicegate-flow"], [orjson.loads(line) for line in answer.text.splitlines()]


async def settle(client: httpx.AsyncClient, path: str, outcome: str = "") -> int:
    query = {"outcome": outcome} if outcome else {}
    return (await client.post(path, params=query)).status_code


@dataclass
class Event:
    """An event of a stream, as browsers read it."""

    kind: str
    data: Any
    id: str


@dataclass
class EventStream:
    """The events of one response, read as they come."""

    response: httpx.Response
    _lines: AsyncIterator[str] = field(init=False)

    def __post_init__(self) -> None:
        self._lines = self.response.aiter_lines()

    async def next(self, kind: str) -> Event:
        """Return the next event of a kind; others are passed over."""
        async with asyncio.timeout(DEADLINE_S):
            while (event := await self._event()).kind != kind:
                pass
            return event

    async def _event(self) -> Event:
        said: dict[str, str] = {}
        async for line in self._lines:
            if not line and said:
                return Event(said["event"], orjson.loads(said["data"]), said.get("id", ""))
            name, _, value = line.partition(": ")
            if name and not line.startswith(":"):  # a comment is a sign of life
                said[name] = value
        raise EOFError("the stream has ended")


@asynccontextmanager
async def event_stream(
    client: httpx.AsyncClient, path: str, headers: dict[str, str] | None = None, **query: object
) -> AsyncIterator[EventStream]:
    params = {name: str(each) for name, each in query.items()}
    async with client.stream("GET", path, params=params, headers={**EVENTS, **(headers or {})}) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"] == "text/event-stream"
        yield EventStream(response)


def words(answer: httpx.Response) -> str:
    """Return the detail of an error document."""
    detail = answer.text.partition("<detail>")[2].partition("</detail>")[0]
    assert answer.text.startswith(f"<solace-error-response><code>{answer.status_code}</code><reason>")
    return detail
