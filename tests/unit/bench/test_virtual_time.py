"""The node that benchmarks of cores run, on time that jumps."""

import asyncio
from pathlib import Path

from bench.cores.node.clients import Client
from bench.cores.node.virtual_time import run_on_jumping_time, start_node
from bench.wire import mqtt as wire


def test_a_client_is_answered_and_an_hour_takes_no_time(tmp_path: Path) -> None:
    async def main() -> None:
        node = await start_node(tmp_path, [])
        client = Client(node, 1)
        await asyncio.sleep(3600)
        assert b"".join(client.written)[0] & wire.TYPE_MASK == wire.CONNACK

    run_on_jumping_time(main())
