"""Clients whose activity the console shows."""

import sluicegate
from support.processes.gateway import GatewayProcess


def client_of(running: GatewayProcess, name: str) -> sluicegate.BlockingClient:
    """Return a client of that name, to be opened."""
    return sluicegate.BlockingClient(running.flow_url, sluicegate.ClientOptions(client_name=name))


def publish(running: GatewayProcess, queue: str, *payloads: bytes) -> None:
    """Bring messages of one key into a queue, and wait until they are there."""
    with client_of(running, "feeder") as client, client.publisher() as publisher:
        publisher.send_all([sluicegate.Message(each, queue=queue, key="customer-7") for each in payloads])
        publisher.flush()
