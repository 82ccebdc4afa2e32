"""`sluicegate bench` against a running gateway: figures for operators, and nothing left behind."""

import json
from pathlib import Path

import pytest

from support.processes.gateway import gateway, wait_until

pytestmark = [pytest.mark.slow]


def test_a_run_confirms_and_receives_everything_and_removes_its_queue(tmp_path: Path) -> None:
    """docs/operate/operations.md: rate, latency, and losses, repetitions and order looked at."""
    with gateway(tmp_path) as node:
        flow_url = f"flow://127.0.0.1:{node.ports['flow']}"
        load = ("--rate", "500", "--duration", "1", "--publishers", "2", "--consumers", "2", "--keys", "20")
        run = node.command("bench", *load, "--partitions", "4", "--flow-url", flow_url, "--json")
        assert run.returncode == 0, run.stderr
        figures = json.loads(run.stdout)
        assert (figures["confirmed"], figures["received"]) == (500, 500)
        assert (figures["refused"], figures["lost"], figures["out_of_order"]) == (0, 0, 0)
        latency = figures["latency_ms"]
        assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["p99.9"] <= latency["max"]
        assert json.loads(node.command("queue", "list", "--json").stdout) == []


def test_refusals_of_the_gateway_make_the_command_fail_with_the_reason(tmp_path: Path) -> None:
    with gateway(tmp_path, spool__usage_bytes_max="1MiB", spool__map_bytes_max="16MiB") as node:
        flow_url = f"flow://127.0.0.1:{node.ports['flow']}"
        load = ("--rate", "4", "--duration", "1", "--size", "2000000", "--partitions", "0")
        run = node.command("bench", *load, "--flow-url", flow_url)
        assert run.returncode == 1
        assert "4 refused" in run.stderr
        assert json.loads(node.command("queue", "list", "--json").stdout) == []


def test_when_the_gateway_ends_it_says_so_soon_and_its_queue_goes_by_itself(tmp_path: Path) -> None:
    """It gives up after seconds; what it can no longer delete expires without a consumer."""
    with gateway(tmp_path) as node:
        load = ("--rate", "500", "--duration", "60", "--publishers", "2", "--consumers", "2", "--partitions", "4")
        with node.running_command("bench", *load, "--flow-url", node.flow_url) as run:
            wait_until(lambda: node.metric("sluicegate_queue_messages_settled_total") > 0, within_s=30, what="messages")
            node.kill9()
            output, told = run.communicate(timeout=30)
        assert (run.returncode, output) == (3, "")
        assert "connection lost: " in told
        assert "no connection for 5 s" in told
        assert "sluicegate-bench-" in told
        node.start()
        (queue,) = json.loads(node.command("queue", "list", "--json").stdout)
        assert queue["config"]["expires_unbound_s"] == 60


def test_an_unreachable_flow_port_is_reported(tmp_path: Path) -> None:
    with gateway(tmp_path) as node:
        run = node.command("bench", "--flow-url", "flow://127.0.0.1:1", "--duration", "1")
        assert run.returncode == 3
        assert "--flow-url" in run.stderr
        assert json.loads(node.command("queue", "list", "--json").stdout) == []
