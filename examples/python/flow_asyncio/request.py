"""Ask for the price of an apple, and print the answer."""

import asyncio
import os

import sluicegate


async def main():
    """Ask, with a temporary queue for the answer."""
    async with sluicegate.Client(os.environ.get("FLOW_URL", "flow://127.0.0.1")) as client:
        own = (await client.queues.create(durable=False)).name
        async with client.consumer(own) as answers, client.publisher() as questions:
            question = sluicegate.Message(
                b"apple", queue="prices", reply_to=f"#q/{own}", correlation=b"1", is_text=True
            )
            await questions.publish(question)
            async with asyncio.timeout(30):
                answer = await answers.receive()
            answer.accept()
            print(f"apple: {answer.payload.decode()}")


asyncio.run(main())
