"""Work on orders until Ctrl-C, in two threads. Start several of these: they share the queue by customers."""

import contextlib
import os
import threading

import sluicegate


def work(client):
    """Work on one order after the other. What a worker holds when it dies comes again."""
    with contextlib.suppress(sluicegate.ClientClosed), client.consumer("orders", window=10) as consumer:
        while True:
            order = consumer.receive()
            print(f"{order.key}: {order.payload.decode()}\n", end="", flush=True)  # one write: no lines get mixed
            order.accept()


with sluicegate.BlockingClient(os.environ.get("FLOW_URL", "flow://127.0.0.1")) as client:
    workers = [threading.Thread(target=work, args=[client]) for _ in range(2)]
    for worker in workers:
        worker.start()
    with contextlib.suppress(KeyboardInterrupt):
        for worker in workers:
            worker.join()
