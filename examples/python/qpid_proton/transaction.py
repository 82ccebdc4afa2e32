"""Take an order and write its invoice: both happen, or neither does."""

import os

from proton import Message
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container


class Invoices(MessagingHandler, TransactionHandler):
    """Declares a transaction, uses it for one order, and commits it."""

    def __init__(self, url):
        super().__init__(prefetch=0, auto_accept=False)
        self.url = url
        self.connection = self.sender = self.receiver = self.transaction = self.invoice = None

    def on_start(self, event):
        """Connect, and declare a transaction."""
        self.connection = event.container.connect(self.url, allowed_mechs="ANONYMOUS")
        self.sender = event.container.create_sender(self.connection, "invoices")
        self.receiver = event.container.create_receiver(self.connection, "orders")
        event.container.declare_transaction(self.connection, handler=self)

    def on_transaction_declared(self, event):
        """Ask for one order."""
        self.transaction = event.transaction
        self.receiver.flow(1)

    def on_message(self, event):
        """Write the invoice and accept the order, in the transaction. Nobody sees either before the commit."""
        order = event.message
        self.invoice = Message(body=f"invoice for {order.body}", group_id=order.group_id, durable=True)
        self.transaction.send(self.sender, self.invoice)
        self.transaction.accept(event.delivery)
        self.transaction.commit()

    def on_transaction_committed(self, event):
        """The broker has stored both."""
        print(f"committed: {self.invoice.body}")
        self.connection.close()

    def on_transaction_commit_failed(self, event):
        """Neither has happened: the order is delivered again."""
        print("rolled back")
        self.connection.close()


Container(Invoices(os.environ.get("AMQP_URL", "amqp://127.0.0.1:5672"))).run()
