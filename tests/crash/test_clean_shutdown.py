"""SIGTERM under load: the gateway stops cleanly, and the next start continues at the same point."""

import json
import os
import re
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from support.load.delivery_record import DeliveryRecord
from support.load.mqtt_clients import WireClient, WireConsumer, WirePublisher, hung_up_at_the_end, run_until
from support.processes.gateway import FREE_PORTS, PYTHON, STOP_S, GatewayProcess
from support.processes.programs import running

WITHIN_S = 60
SERVER_SHUTTING_DOWN = 0x8B

pytestmark = [pytest.mark.crash, pytest.mark.slow]


def confirm(publisher: WirePublisher, clients: list[WireClient], *, count: int) -> None:
    """Run until so many more messages are confirmed."""
    wanted = publisher.confirmed_count + count
    run_until(clients, lambda: publisher.confirmed_count >= wanted, within_s=WITHIN_S, what="confirmations")


def test_a_stop_under_load_loses_nothing_and_repeats_nothing_that_was_settled(tmp_path: Path) -> None:
    """After a clean stop only what was delivered and not settled comes marked as redelivered."""
    record = DeliveryRecord("load")
    publisher = WirePublisher("p", topic="load", keys=["a", "b", "c", "d"], qos=1)
    consumer = WireConsumer("c", filter_text="$queue/load", qos=1, record=record.note, hold_count=5)
    clients: list[WireClient] = [publisher, consumer]
    gateway = GatewayProcess(tmp_path)
    with gateway, hung_up_at_the_end(clients):
        gateway.create_queue(
            "load",
            access_type="non-exclusive",
            partition_count=2,
            subscriptions=["load/>"],
            partition_rebalance_delay_s=0,
        )
        for _ in range(3):
            for client in clients:
                client.connect(gateway.mqtt_port)
            confirm(publisher, clients, count=500)
            gateway.send_signal(signal.SIGTERM)
            for client in clients:
                client.read_to_the_end()
                assert client.disconnect_code == SERVER_SHUTTING_DOWN
            assert gateway.wait_for_exit(STOP_S) == 0
            gateway.start()
        publisher.publishing = False
        consumer.hold_count = 0  # before it connects: what it holds may come right behind CONNACK
        for client in clients:
            client.connect(gateway.mqtt_port)
        run_until(clients, lambda: publisher.is_idle, within_s=WITHIN_S, what="the last confirmations")
        run_until(clients, lambda: gateway.held_count("load") == 0, within_s=WITHIN_S, what="an empty queue")
        record.check_nothing_is_lost(publisher.confirmed)
        record.check_order()
        seen: set[tuple[str, int]] = set()
        for each in record.received:
            new = (each.key, each.number) not in seen
            assert not (new and each.redelivered), f"{each} was never delivered before, but is marked"
            seen.add((each.key, each.number))


def test_an_undelivered_backlog_comes_without_the_redelivered_flag_after_a_clean_restart(tmp_path: Path) -> None:
    record = DeliveryRecord("load")
    publisher = WirePublisher("p", topic="load", keys=["a"], qos=1, window=500)
    consumer = WireConsumer("c", filter_text="$queue/load", qos=1, record=record.note)
    clients: list[WireClient] = [publisher]
    gateway = GatewayProcess(tmp_path)
    with gateway, hung_up_at_the_end([publisher, consumer]):
        gateway.create_queue("load", subscriptions=["load/>"])
        publisher.connect(gateway.mqtt_port)
        run_until(clients, lambda: publisher.confirmed_count >= 2000, within_s=WITHIN_S, what="a backlog")
        publisher.publishing = False
        run_until(clients, lambda: publisher.is_idle, within_s=WITHIN_S, what="the last confirmations")
        publisher.say_goodbye()
        gateway.restart()
        assert gateway.held_count("load") == publisher.confirmed_count

        consumer.connect(gateway.mqtt_port)
        run_until([consumer], lambda: gateway.held_count("load") == 0, within_s=WITHIN_S, what="an empty queue")

    record.check_nothing_is_lost(publisher.confirmed)
    record.check_nothing_is_repeated()
    assert not any(each.redelivered for each in record.received)


def test_a_stop_without_clients_waits_for_none(tmp_path: Path) -> None:
    gateway = GatewayProcess(tmp_path)
    with gateway:
        gateway.send_signal(signal.SIGTERM)
        assert gateway.wait_for_exit(STOP_S) == 0
    assert re.search(r"stopped$", gateway.stderr.strip())


def test_reloads_that_are_asked_for_during_a_stop_are_passed_over(tmp_path: Path) -> None:
    """SIGHUP would end the process as soon as nobody listens for it any more."""
    with running([*PYTHON, "serve", "--data", tmp_path / "data", *FREE_PORTS]) as gateway:
        assert gateway.stdout is not None
        assert "is ready" in gateway.stdout.readline()
        gateway.send_signal(signal.SIGTERM)
        while gateway.poll() is None:
            gateway.send_signal(signal.SIGHUP)
            with suppress(subprocess.TimeoutExpired):
                gateway.wait(0.002)
        assert gateway.returncode == 0


def test_a_gateway_that_starts_can_be_stopped(tmp_path: Path) -> None:
    """It takes the signal, rather than being ended by it: process 1 of a container would go on, and be killed later."""
    configuration = tmp_path / "gate.yaml"
    os.mkfifo(configuration)  # what is read first, and here never comes
    with running([*PYTHON, "serve", "--config", configuration]) as gateway, configuration.open("w"):
        gateway.send_signal(signal.SIGTERM)
        assert gateway.wait(STOP_S) == 0


def test_a_start_that_fails_leaves_the_spool_in_order(tmp_path: Path) -> None:
    """Or the next one would flag all that waits as redelivered, for nothing but a port that was taken."""
    gateway = GatewayProcess(tmp_path)
    with gateway:
        gateway.create_queue("load", subscriptions=["load/>"])
        assert gateway.command("pub", "--topic", "load/x", "--message", "hello").returncode == 0
    with socket.create_server(("127.0.0.1", gateway.amqp_port)):
        taken = f"--set=listeners.amqp.port={gateway.amqp_port}"
        command = [*PYTHON, "serve", "--data", str(gateway.data), *FREE_PORTS, taken]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S)
    assert refused.returncode == 1
    assert "listeners.amqp cannot listen on" in refused.stderr

    examined = subprocess.run(
        [*PYTHON, "doctor", "--data", str(gateway.data), "--json"], capture_output=True, text=True, timeout=WITHIN_S
    )
    assert json.loads(examined.stdout)["looked_at"]["closed in order"] == "yes"
    with gateway:
        assert gateway.held_count("load") == 1
