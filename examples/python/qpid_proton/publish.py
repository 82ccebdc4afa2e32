"""Publish twelve orders of three customers; the orders of a customer stay in their order."""

import os

from proton import Message
from proton.utils import BlockingConnection

connection = BlockingConnection(os.environ.get("AMQP_URL", "amqp://127.0.0.1:5672"), allowed_mechs="ANONYMOUS")
sender = connection.create_sender("topic://orders/eu")
for number in range(1, 13):
    customer = f"customer-{number % 3 + 1}"
    # group_id is the partition key. `send` returns when the broker has stored the order.
    sender.send(Message(body=f"order {number}", group_id=customer, durable=True))
print("12 orders published")
connection.close()
