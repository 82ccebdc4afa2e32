"""Clients whose activity the console shows."""

import sluicegate
from support.http.plain import HTTP
from support.processes.gateway import REQUEST_S, GatewayProcess, wait_until


def client_of(running: GatewayProcess, name: str) -> sluicegate.BlockingClient:
    """Return a client of that name, to be opened."""
    return sluicegate.BlockingClient(running.flow_url, sluicegate.ClientOptions(client_name=name))


def publish(running: GatewayProcess, queue: str, *payloads: bytes) -> None:
    """Publish messages of one key to a queue, and wait until they are safe."""
    with client_of(running, "feeder") as client, client.publisher() as publisher:
        publisher.send_all([sluicegate.Message(each, queue=queue, key="customer-7") for each in payloads])
        publisher.flush()


def wait_until_held(running: GatewayProcess, counts: dict[str, int]) -> None:
    """Wait until queues hold so many messages: what is safe at one broker of a machine may still go to another."""
    wait_until(
        lambda: {queue: running.held_count(queue) for queue in counts} == counts,
        within_s=30,
        what=f"queues to hold {counts}",
    )


def publish_as_operator(running: GatewayProcess, **message: object) -> None:
    """Publish a message over the admin port, with the fields of its request."""
    HTTP.post(f"{running.admin_url}/publish", json=message, timeout=REQUEST_S).raise_for_status()
