"""Answer questions for prices until Ctrl-C. Several of these share the questions."""

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


with (
    sluicegate.BlockingClient(os.environ.get("FLOW_URL", "flow://127.0.0.1")) as client,
    client.consumer("prices") as questions,
    client.publisher() as answers,
    contextlib.suppress(KeyboardInterrupt),
):
    while True:
        question = questions.receive()
        if question.reply_to:  # otherwise nobody waits for an answer
            answers.publish(answer_to(question))  # then accept: a question whose answer is not stored comes again
        question.accept()
