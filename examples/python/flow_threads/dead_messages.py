"""Reject an order that nobody can work on, and find it in the dead message queue."""

import os

import sluicegate

with sluicegate.BlockingClient(os.environ.get("FLOW_URL", "flow://127.0.0.1")) as client:
    with client.publisher() as publisher:
        publisher.publish(sluicegate.Message(b"no order at all", topic="orders/eu", key="customer-4"))

    with client.consumer("orders", window=1) as orders:
        while True:
            order = orders.receive(timeout_s=30)
            text = order.payload.decode()
            if text.startswith("order "):
                print(f"done: {text}")
                order.accept()
            else:
                print(f"rejected: {text}")
                order.reject()  # `order.fail()` would give it one more try
                break

    with client.consumer("dead", window=1) as dead:
        message = dead.receive(timeout_s=30)
        print(f"dead: {message.payload.decode()} ({dict(message.properties)['sluicegate-dead-reason']})")
        message.accept()
