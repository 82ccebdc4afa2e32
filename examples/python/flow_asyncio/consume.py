"""Work on orders until Ctrl-C. Start as many of these as you like: they share the queue by customers."""

import asyncio
import contextlib
import os

import sluicegate


async def main():
    """Work on one order after the other. What a worker holds when it dies comes again."""
    url = os.environ.get("FLOW_URL", "flow://127.0.0.1")
    async with sluicegate.Client(url) as client, client.consumer("orders", window=10) as consumer:
        async for order in consumer:
            print(f"{order.key}: {order.payload.decode()}", flush=True)
            order.accept()


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main())
