"""A neighbor whose process is stopped: questions about its queues end with a reason, and go on when it runs again."""

import os
import signal
from pathlib import Path

import pytest

from support.http.plain import HTTP
from support.processes.gateway import GatewayProcess, wait_until

DEAD_TIME_MS = 1_500  # after so much silence the link counts as gone; the question itself would end after ten seconds
WITHIN_S = 30
MAY_LINK: dict[str, object] = {
    "authentication.client_profiles.0.name": "default",
    "authentication.client_profiles.0.allow_bridge_connections_enabled": True,
}

pytestmark = [pytest.mark.crash, pytest.mark.slow]


def test_a_question_about_a_queue_of_a_stopped_broker_ends_with_the_link(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    b = GatewayProcess(tmp_path / "b", {"node.name": "b", "links.a.url": "", **MAY_LINK})
    with b:
        link = {"links.b.url": f"flow://127.0.0.1:{b.ports['flow']}", "links.b.dead_time_ms": DEAD_TIME_MS}
        with GatewayProcess(tmp_path / "a", {"node.name": "a", **link, **MAY_LINK}) as a:
            b.create_queue("q")
            wait_until(lambda: _shown(a)[0] == 0, within_s=WITHIN_S, what="a to know q")
            os.kill(b.pid, signal.SIGSTOP)
            try:
                # Not by a command: its start may take longer than the link.
                answer = HTTP.get(f"{a.admin_url}/queues/q", timeout=WITHIN_S)
                assert "queue 'q' is at broker b: the link to broker b went down" in answer.json()["detail"]
                exit_code, text = _shown(a)
                assert (exit_code, "queue 'q' is at broker b: the link to broker b is down" in text) == (1, True), text
            finally:
                os.kill(b.pid, signal.SIGCONT)
            wait_until(lambda: _shown(a)[0] == 0, within_s=WITHIN_S, what="b to answer again")


def _shown(broker: GatewayProcess) -> tuple[int, str]:
    """Ask for the queue as operators do; return exit code and error text."""
    done = broker.command("queue", "show", "q")
    return done.returncode, done.stderr
