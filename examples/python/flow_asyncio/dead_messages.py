"""Reject an order that nobody can work on, and find it in the dead message queue."""

import asyncio
import os

import sluicegate


async def work_until_one_is_rejected(client):
    """Accept orders, and reject what is none."""
    async with client.consumer("orders", window=1) as orders:
        async for order in orders:
            text = order.payload.decode()
            if text.startswith("order "):
                print(f"done: {text}")
                order.accept()
            else:
                print(f"rejected: {text}")
                order.reject()  # `order.fail()` would give it one more try
                return


async def main():
    """Publish what is no order, and follow it."""
    async with sluicegate.Client(os.environ.get("FLOW_URL", "flow://127.0.0.1")) as client:
        async with client.publisher() as publisher:
            await publisher.publish(sluicegate.Message(b"no order at all", topic="orders/eu", key="customer-4"))
        await work_until_one_is_rejected(client)
        async with client.consumer("dead", window=1) as dead:
            message = await dead.receive()
            print(f"dead: {message.payload.decode()} ({dict(message.properties)['sluicegate-dead-reason']})")
            message.accept()


asyncio.run(main())
