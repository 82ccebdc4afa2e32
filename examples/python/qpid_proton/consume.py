"""Work on orders until Ctrl-C. Start as many of these as you like: they share the queue by customers."""

import contextlib
import os

from proton.handlers import MessagingHandler
from proton.reactor import Container


class Worker(MessagingHandler):
    """Accepts an order when its work is done; what it holds when it dies comes again."""

    def __init__(self, url):
        super().__init__(prefetch=10, auto_accept=False)
        self.url = url

    def on_start(self, event):
        """Connect. The container connects again by itself when the connection is lost."""
        connection = event.container.connect(self.url, allowed_mechs="ANONYMOUS")
        event.container.create_receiver(connection, "orders")

    def on_message(self, event):
        """Work on one order."""
        print(f"{event.message.group_id}: {event.message.body}", flush=True)
        self.accept(event.delivery)


with contextlib.suppress(KeyboardInterrupt):
    Container(Worker(os.environ.get("AMQP_URL", "amqp://127.0.0.1:5672"))).run()
