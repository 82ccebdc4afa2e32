"""Publish twelve orders of three customers; the orders of a customer stay in their order."""

import os

import sluicegate

url = os.environ.get("FLOW_URL", "flow://127.0.0.1")
with sluicegate.BlockingClient(url) as client, client.publisher() as publisher:
    for number in range(1, 13):
        customer = f"customer-{number % 3 + 1}"
        publisher.send(sluicegate.Message(f"order {number}".encode(), topic="orders/eu", key=customer))
    publisher.flush()  # until the broker has stored all of them
print("12 orders published")
