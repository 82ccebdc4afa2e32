"""Publish twelve orders of three customers; the orders of a customer stay in their order."""

import asyncio
import os

import sluicegate


async def main():
    """Send all of them, then wait until all are stored."""
    url = os.environ.get("FLOW_URL", "flow://127.0.0.1")
    async with sluicegate.Client(url) as client, client.publisher() as publisher:
        for number in range(1, 13):
            customer = f"customer-{number % 3 + 1}"
            await publisher.send(sluicegate.Message(f"order {number}".encode(), topic="orders/eu", key=customer))
        await publisher.flush()
    print("12 orders published")


asyncio.run(main())
