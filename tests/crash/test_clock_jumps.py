"""The machine's clock jumps forward and back: nothing is lost, order holds, and time limits use the new time."""

from pathlib import Path

import pytest

from support.foreign.paho_client import PahoClient
from support.http.plain import HTTP
from support.processes.foreign_programs import library
from support.processes.gateway import GatewayProcess, wait_until

WITHIN_S = 60
HOUR_S = 3600

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]


def post(node: GatewayProcess, payload: str, ttl_s: int = 0) -> None:
    headers = {"Solace-Time-To-Live-In-ms": str(ttl_s * 1000)}
    url = f"{node.http_url}/QUEUE/orders"
    assert HTTP.post(url, content=payload, headers=headers, timeout=WITHIN_S).status_code == 200


def test_the_clock_jumps_forward_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was confirmed is there; what lives an hour is gone after two, and nothing else is."""
    clock = tmp_path / "clock"
    clock.write_text("+0\n")
    monkeypatch.setenv("LD_PRELOAD", str(library("faketime/libfaketimeMT.so.1")))
    monkeypatch.setenv("FAKETIME_TIMESTAMP_FILE", str(clock))
    monkeypatch.setenv("FAKETIME_NO_CACHE", "1")
    monkeypatch.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")  # as when NTP or an operator sets the time
    with GatewayProcess(tmp_path / "node") as node:
        node.create_queue("orders", respect_ttl_enabled=True)
        post(node, "first")
        post(node, "for an hour", ttl_s=HOUR_S)
        post(node, "for a day", ttl_s=24 * HOUR_S)

        clock.write_text(f"+{2 * HOUR_S}\n")
        post(node, "two hours later", ttl_s=HOUR_S)  # gives the queue a turn, which it takes each minute anyway
        wait_until(lambda: node.held_count("orders") == 3, within_s=WITHIN_S, what="the hour to be over")

        clock.write_text(f"-{48 * HOUR_S}\n")
        post(node, "two days before", ttl_s=HOUR_S)
        node.kill9()
        node.start()
        assert node.held_count("orders") == 4
        with PahoClient("worker") as worker:
            worker.connect(node.mqtt_port)
            worker.subscribe("$queue/orders", 1)
            got = [worker.next().payload for _ in range(4)]
        assert got == [b"first", b"for a day", b"two hours later", b"two days before"]
        wait_until(lambda: node.held_count("orders") == 0, within_s=WITHIN_S, what="all to be settled")
