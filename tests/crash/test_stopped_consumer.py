"""A consumer process is stopped and continued: meanwhile other consumers get its messages, and none is lost."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.http.plain import HTTP
from support.processes.gateway import PYTHON, GatewayProcess, gateway, wait_until

WITHIN_S = 60
KEYS = 40
ROUND = 200  # messages

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(400)]


class Consumer:
    """`sluicegate sub` on the queue, with its output in a file."""

    def __init__(self, process: "subprocess.Popen[bytes]", output: Path) -> None:
        self.process = process
        self._output = output

    @property
    def payloads(self) -> list[str]:
        """The lines that it has printed."""
        lines = self._output.read_text().splitlines(keepends=True)
        return [json.loads(line)["payload"] for line in lines if line.endswith("\n")]


@contextmanager
def consumer(node: GatewayProcess, output: Path) -> Iterator[Consumer]:
    command = [*PYTHON, "sub", "--queue", "orders", "--json", "--port", str(node.mqtt_port)]
    with output.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL) as process:
        try:
            yield Consumer(process, output)
        finally:
            process.kill()


def publish(node: GatewayProcess, first: int) -> list[str]:
    """Publish a round of messages in one request; return their payloads, which contain key and number."""
    payloads = [f"{number % KEYS}/{number}" for number in range(first, first + ROUND)]
    lines = [
        json.dumps({"payload": text, "headers": {"Sluicegate-Partition-Key": text.partition("/")[0]}})
        for text in payloads
    ]
    batch = {"Sluicegate-Batch": "ndjson"}
    url = f"{node.http_url}/QUEUE/orders"
    answer = HTTP.post(url, content="\n".join(lines), headers=batch, timeout=WITHIN_S)
    assert answer.status_code == 200
    return payloads


def test_a_stopped_consumer_is_replaced_and_takes_part_again(tmp_path: Path) -> None:
    """Keep alive tells a stopped process from a slow one [MQTT 3.1.2.10]."""
    with gateway(tmp_path, mqtt__keep_alive_s_max=2) as node:
        node.create_queue(
            "orders",
            access_type="non-exclusive",
            partition_count=4,
            partition_rebalance_delay_s=0,
            partition_rebalance_max_handoff_time_s=WITHIN_S,
        )
        with consumer(node, tmp_path / "one") as one, consumer(node, tmp_path / "two") as two:
            published: list[str] = []
            while not (one.payloads and two.payloads):
                published += publish(node, len(published))
                wait_until(lambda: node.held_count("orders") == 0, within_s=WITHIN_S, what="the queue to be empty")

            one.process.send_signal(signal.SIGSTOP)
            published += publish(node, len(published))
            wait_until(lambda: node.held_count("orders") == 0, within_s=WITHIN_S, what="the other to have it all")
            one.process.send_signal(signal.SIGCONT)
            published += publish(node, len(published))
            wait_until(lambda: node.held_count("orders") == 0, within_s=WITHIN_S, what="the queue to be empty")
            two.process.kill()
            with consumer(node, tmp_path / "three") as three:
                published += publish(node, len(published))
                wait_until(lambda: node.held_count("orders") == 0, within_s=WITHIN_S, what="the rest to be consumed")
                seen = one.payloads + two.payloads + three.payloads
        assert set(published) <= set(seen)
        for name in (one, two, three):
            in_order_of_first_sight(name.payloads)


def in_order_of_first_sight(payloads: list[str]) -> None:
    """Of each key, one consumer sees the messages in their order; what comes again comes later."""
    latest: dict[str, int] = {}
    known: set[str] = set()
    for payload in payloads:
        key, number = payload.split("/")
        if payload not in known:
            assert int(number) > latest.get(key, -1), payload
            latest[key] = int(number)
        known.add(payload)
