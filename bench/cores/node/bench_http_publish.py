"""POSTs of 100 bytes on connections that are kept: durable publishing, beside a bare handler of the same HTTP server.

Run with `python -m bench.cores.node.bench_http_publish [connections] [requests]`. Each server runs in its own process.
Both get the same load in turn, for several rounds, with one request in flight on each connection. The program prints
processor microseconds per request and their ratio. The bare handler is an ASGI application on uvicorn, with httptools
and uvloop; it reads the body and answers 200.
"""

import asyncio
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn
import uvloop

from bench.brokers.measure import cpu_seconds

CONNECTIONS: Final = 16
REQUESTS: Final = 20_000
ROUNDS: Final = 3
PAYLOAD: Final = b"x" * 100
HEADERS: Final = (
    b"Host: 127.0.0.1\r\nContent-Type: application/octet-stream\r\nSluicegate-Partition-Key: customer-7\r\n"
)
PATH: Final = b"/QUEUE/orders"
WARM_UP: Final = 1_000
ANSWER: Final = re.compile(rb"^HTTP/1\.1 200 ")


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """Read the body of a request and answer 200."""
    more = True
    while more:
        more = (await receive())["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


def serve_bare() -> None:
    """Serve the bare handler; print the port."""

    async def serve() -> None:
        config = uvicorn.Config(
            bare, port=0, http="httptools", ws="none", lifespan="off", access_log=False, log_config=None
        )
        server = uvicorn.Server(config)
        serving = asyncio.get_running_loop().create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        print(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", flush=True)
        await serving

    uvloop.run(serve())


@contextmanager
def process(*command: str) -> Iterator[tuple[int, int]]:
    """Run a server; yield its process id and its HTTP port."""
    with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            port = 0
            while not port:
                line = running.stdout.readline()
                assert line, "the server has ended"
                found = re.match(r"(?:\s+http\s+)?http://127\.0\.0\.1:(\d+)", line)
                port = int(found.group(1)) if found else 0
            yield running.pid, port
        finally:
            running.terminate()


async def load(port: int, connections: int, requests: int) -> None:
    """Send requests, one in flight on each connection."""
    request = b"POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s" % (PATH, HEADERS, len(PAYLOAD), PAYLOAD)

    async def one(count: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(count):
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            assert ANSWER.match(head), head
        writer.close()

    await asyncio.gather(*[one(requests // connections) for _ in range(connections)])


async def measure(pid: int, port: int, connections: int, requests: int) -> tuple[float, float]:
    """Return processor seconds and seconds of a load."""
    await load(port, connections, WARM_UP)
    before, began = cpu_seconds(pid), time.perf_counter()
    await load(port, connections, requests)
    return cpu_seconds(pid) - before, time.perf_counter() - began


async def compare(connections: int, requests: int) -> None:
    """Measure both, and print."""
    settings = ["admin.enabled=false", "queues.declared=[{name: orders, max_msg_spool_usage: 10000}]"]
    settings += [f"listeners.{name}.port=0" for name in ("mqtt", "mqtt_websocket", "amqp", "flow", "http")]
    with (
        tempfile.TemporaryDirectory() as folder,
        process("-m", "bench.cores.node.bench_http_publish", "bare") as bare_server,
        process("-m", "sluicegate", "serve", "--data", folder, *[f"--set={each}" for each in settings]) as gateway,
    ):
        for _ in range(ROUNDS):
            bare_cpu, bare_wall = await measure(*bare_server, connections, requests)
            cpu, wall = await measure(*gateway, connections, requests)
            each = 1e6 / requests
            print(
                f"{connections} connections: bare {bare_cpu * each:.0f} us, {requests / bare_wall:,.0f}/s; "
                f"durable {cpu * each:.0f} us, {requests / wall:,.0f}/s; ratio of CPU {cpu / bare_cpu:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    if sys.argv[1:] == ["bare"]:
        serve_bare()
    else:
        numbers = [int(each) for each in sys.argv[1:]]
        uvloop.run(compare(*(numbers + [CONNECTIONS, REQUESTS][len(numbers) :])))
