"""The project's own flow client, and HTTP publishers, on one event loop."""

import asyncio
import threading
from typing import Final

import httpx

from rounds.clients.pace import HOUR_MS, PAUSE_S, WINDOW, Numbers, Pace, payload_of, read_payload
from sluicegate import Client, ClientOptions, Message, PublishRefused
from support.http.plain import plain_async_client
from support.processes.gateway import LOOPBACK

FLOW: Final = "flow"
HTTP: Final = "HTTP"
AGAIN_S: Final = 0.2
ANSWER_S: Final = 5.0
FEW: Final = 50
KEEP_ALIVE_S: Final = 2.0


class Coroutines:
    """A flow publisher, a flow consumer and two HTTP publishers, each a task."""

    def __init__(self, pace: Pace, ports: dict[str, int], *, queue: str) -> None:
        self._pace: Final = pace
        self._queue: Final = queue
        self._ports: Final = ports
        self._thread: Final = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()

    async def _run(self) -> None:
        tasks = [
            asyncio.create_task(each)
            for each in (self._publish_flow(), self._consume_flow(), self._publish_http("h1"), self._publish_http("h2"))
        ]
        while not self._pace.ended.is_set():
            await asyncio.sleep(PAUSE_S)
            for task in tasks:
                if task.done() and (error := task.exception()) is not None:
                    self._pace.ledger.fault(f"a client of flow or HTTP has ended: {error!r}")
                    return
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- flow ---

    def _client(self, name: str) -> Client:
        options = ClientOptions(
            client_name=name,
            reconnect_delay_s=AGAIN_S,
            reconnect_delay_max_s=AGAIN_S,
            keep_alive_s=KEEP_ALIVE_S,
            connect_timeout_s=ANSWER_S,
            close_timeout_s=AGAIN_S,
        )
        return Client(f"flow://{LOOPBACK}:{self._ports['flow']}", options)

    async def _publish_flow(self) -> None:
        numbers = Numbers("f", self._pace.ledger)
        room = asyncio.Semaphore(WINDOW)
        async with self._client("fp") as client, client.publisher("fp", window=WINDOW) as publisher:

            async def publish(key: str, number: int) -> None:
                message = Message(payload_of(key, number), queue=self._queue, key=key, ttl_ms=HOUR_MS)
                try:
                    await publisher.publish(message)
                except PublishRefused:
                    self._pace.ledger.refuse(key, number)
                else:
                    self._pace.ledger.confirm(FLOW, key, number)
                room.release()

            async with asyncio.TaskGroup() as under_way:
                while True:
                    if self._pace.publishing.is_set():
                        await room.acquire()
                        under_way.create_task(publish(*numbers.next()))
                    await asyncio.sleep(PAUSE_S)

    async def _consume_flow(self) -> None:
        async with self._client("fc") as client, client.consumer(self._queue, window=FEW) as consumer:
            while True:
                for delivery in await consumer.receive_many(FEW):
                    self._pace.ledger.receive(*read_payload(delivery.payload))
                    delivery.accept()

    # --- HTTP ---

    async def _publish_http(self, name: str) -> None:
        numbers = Numbers(name, self._pace.ledger)
        url = f"http://{LOOPBACK}:{self._ports['http']}/QUEUE/{self._queue}"
        async with plain_async_client(timeout=ANSWER_S) as client:
            while True:
                if self._pace.publishing.is_set():
                    key, number = numbers.next()
                    headers = {
                        "Sluicegate-Partition-Key": key,
                        "Solace-Time-To-Live-In-ms": str(HOUR_MS),
                        "Content-Type": "application/octet-stream",
                    }
                    while not await self._is_stored(client, url, payload_of(key, number), headers):
                        await asyncio.sleep(AGAIN_S)
                    self._pace.ledger.confirm(HTTP, key, number)
                await asyncio.sleep(PAUSE_S)

    async def _is_stored(self, client: httpx.AsyncClient, url: str, payload: bytes, headers: dict[str, str]) -> bool:
        try:
            answer = await client.post(url, content=payload, headers=headers)
        except httpx.HTTPError:
            return False
        return answer.status_code == httpx.codes.OK
