"""Reject an order that nobody can work on, and find it in the dead message queue."""

import os

from proton import Message
from proton.utils import BlockingConnection

connection = BlockingConnection(os.environ.get("AMQP_URL", "amqp://127.0.0.1:5672"), allowed_mechs="ANONYMOUS")
connection.create_sender("orders").send(Message(body="no order at all", group_id="customer-4", durable=True))

orders = connection.create_receiver("orders", credit=1)
while True:
    text = orders.receive(timeout=30).body
    if text.startswith("order "):
        print(f"done: {text}")
        orders.accept()
    else:
        print(f"rejected: {text}")
        orders.reject()  # `orders.release(delivered=True)` would give it one more try
        break

dead = connection.create_receiver("dead", credit=1)
message = dead.receive(timeout=30)
print(f"dead: {message.body} ({message.annotations['x-opt-sluicegate-dead-reason']})")
dead.accept()
connection.close()
