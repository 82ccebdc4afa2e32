"""Answer questions for prices until Ctrl-C. Several of these share the questions.

Proton accepts a question when `on_message` returns, before the broker has stored the answer: if this program dies in
between, the answer is lost, and the question does not come again.
"""

import contextlib
import os

from proton import Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

PRICES = {"apple": "0.30", "pear": "0.45"}


class Prices(MessagingHandler):
    """Answers to the address in reply-to, over one sender that has no address of its own."""

    def __init__(self, url):
        super().__init__()
        self.url = url
        self.sender = None

    def on_start(self, event):
        """Connect."""
        connection = event.container.connect(self.url, allowed_mechs="ANONYMOUS")
        self.sender = event.container.create_sender(connection, None)
        event.container.create_receiver(connection, "prices")

    def on_message(self, event):
        """Answer one question."""
        question = event.message
        if question.reply_to is None:
            return  # nobody waits for an answer
        price = PRICES.get(question.body, "unknown")
        self.sender.send(Message(address=question.reply_to, correlation_id=question.correlation_id, body=price))


with contextlib.suppress(KeyboardInterrupt):
    Container(Prices(os.environ.get("AMQP_URL", "amqp://127.0.0.1:5672"))).run()
