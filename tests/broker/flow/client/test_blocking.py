"""The blocking client library: a program in a thread of its own, without asyncio."""

import asyncio
import threading
from collections.abc import Callable

import pytest

import sluicegate
from sluicegate import BlockingClient, Message
from support.broker.named_queues import create, shows
from support.broker.running_broker import RunningBroker


async def in_a_thread(program: Callable[[str], None], broker: RunningBroker) -> None:
    """Run a program that blocks; the node is served meanwhile."""
    await asyncio.to_thread(program, f"flow://127.0.0.1:{broker.flow_port}")


async def test_a_program_that_blocks_publishes_and_consumes(broker: RunningBroker) -> None:
    """Flow: publishing, consuming."""
    await create(broker)

    def program(url: str) -> None:
        with BlockingClient(url) as client:
            assert client.is_connected
            with client.publisher("till") as publisher:
                assert publisher.publish(Message(b"0", queue="q"), timeout_s=20) == 1
                publisher.send_all(Message(str(n).encode(), queue="q") for n in range(1, 200))
                assert publisher.send(Message(b"200", queue="q")) == 201
                publisher.flush()
                assert (publisher.unanswered_count, publisher.stored_through) == (0, 0)
            client.publish_direct(Message(b"x", topic="nobody/listens"))
            with client.consumer("q") as consumer:
                first = consumer.receive()
                first.accept()
                rest = [next(consumer)]
                while len(rest) < 200:
                    rest += consumer.receive_many(100, timeout_s=20)
                consumer.extend_all()
                consumer.accept_all(rest)
                with pytest.raises(TimeoutError, match=r"^no message of queue 'q' within 0\.05 s$"):
                    consumer.receive(timeout_s=0.05)
                assert [each.payload for each in rest] == [str(n).encode() for n in range(1, 201)]

    await in_a_thread(program, broker)
    await shows(broker, lambda view: view.ready_count == 0 and view.unacked_count == 0)


async def test_errors_are_the_same_without_asyncio(broker: RunningBroker) -> None:
    """What the client raises on its own thread reaches the program's."""
    await create(broker)

    def program(url: str) -> None:
        with BlockingClient(url) as client:
            with pytest.raises(sluicegate.RequestRefused), client.consumer("nobody"):
                pass
            with client.publisher() as publisher, pytest.raises(sluicegate.PublishRefused):
                publisher.publish(Message(b"x", queue="nobody"))
        with pytest.raises(sluicegate.ClientClosed):
            client.publish_direct(Message(b"x", topic="t"))
        with pytest.raises(sluicegate.AuthenticationRefused):
            BlockingClient(url, sluicegate.ClientOptions(username="ada", password="engine")).__enter__()

    await in_a_thread(program, broker)


async def test_a_delivery_cannot_be_settled_once_the_client_is_closed(broker: RunningBroker) -> None:
    """Its message is delivered again, and the program is told so."""
    await create(broker)

    def program(url: str) -> None:
        with BlockingClient(url) as client:
            with client.publisher() as publisher:
                publisher.publish(Message(b"x", queue="q"))
            with client.consumer("q") as consumer:
                delivery = consumer.receive(timeout_s=20)
        with pytest.raises(sluicegate.ClientClosed, match="the client was closed"):
            delivery.accept()
        client.close()

    await in_a_thread(program, broker)
    await shows(broker, lambda view: view.ready_count == 1 and view.unacked_count == 0)


async def test_a_consumer_may_be_closed_while_another_thread_waits_on_it(broker: RunningBroker) -> None:
    """Its iteration comes to an end; deliveries may be settled by whichever thread is done with them."""
    await create(broker)

    def program(url: str) -> None:
        with BlockingClient(url) as client, client.consumer("q") as consumer, client.publisher() as publisher:
            got: list[bytes] = []
            seen = threading.Event()

            def read() -> None:
                for delivery in consumer:
                    got.append(delivery.payload)
                    delivery.accept()
                    seen.set()

            reading = threading.Thread(target=read)
            reading.start()
            publisher.publish(Message(b"x", queue="q"))
            assert seen.wait(20)
            consumer.close()
            reading.join(20)
            assert not reading.is_alive()
            assert got == [b"x"]

    await in_a_thread(program, broker)
    await shows(broker, lambda view: view.ready_count == 0 and view.unacked_count == 0)
