"""Answer questions for prices until Ctrl-C. Several of these share the questions."""

import asyncio
import contextlib
import os
import sys

import sluicegate

PRICES = {"apple": b"0.30", "pear": b"0.45"}


def answer_to(question):
    """Return the answer; `reply_to` is a topic, or `#q/` and the name of a queue."""
    place = question.reply_to
    target = {"queue": place.removeprefix("#q/")} if place.startswith("#q/") else {"topic": place}
    price = PRICES.get(question.payload.decode(), b"unknown")
    return sluicegate.Message(price, correlation=question.correlation, is_text=True, **target)


async def main():
    """Answer, then accept: before that, the question comes again if the program dies."""
    async with (
        sluicegate.Client(os.environ.get("FLOW_URL", "flow://127.0.0.1")) as client,
        client.consumer("prices") as questions,
        client.publisher() as answers,
    ):
        async for question in questions:
            if question.reply_to:  # otherwise nobody waits for an answer
                try:
                    await answers.publish(answer_to(question))
                except sluicegate.PublishRefused as refused:  # whoever asked may be gone
                    print(f"answer not stored: {refused}", file=sys.stderr)
            question.accept()


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main())
