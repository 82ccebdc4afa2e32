"""Answer questions for prices until Ctrl-C. Several of these share the questions."""

import asyncio
import contextlib
import os

import sluicegate

PRICES = {"apple": b"0.30", "pear": b"0.45"}


def answer_to(question):
    """Return the answer; `reply_to` is a topic, or `#q/` and the name of a queue."""
    place = question.reply_to
    target = {"queue": place.removeprefix("#q/")} if place.startswith("#q/") else {"topic": place}
    price = PRICES.get(question.payload.decode(), b"unknown")
    return sluicegate.Message(price, correlation=question.correlation, is_text=True, **target)


async def main():
    """Answer, then accept: a question whose answer is not stored comes again."""
    async with (
        sluicegate.Client(os.environ.get("FLOW_URL", "flow://127.0.0.1")) as client,
        client.consumer("prices") as questions,
        client.publisher() as answers,
    ):
        async for question in questions:
            if question.reply_to:  # otherwise nobody waits for an answer
                await answers.publish(answer_to(question))
            question.accept()


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main())
