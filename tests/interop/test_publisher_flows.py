"""AMQP sender links appear to operators as other publishers do (Solace 9.5)."""

import pytest
from proton.utils import BlockingConnection

from support.http.plain import HTTP
from support.processes.gateway import REQUEST_S, GatewayProcess, wait_until

pytestmark = [pytest.mark.interop]

ANSWER_S = 30


def texts(node: GatewayProcess) -> list[str]:
    """What was said of publisher flows so far."""
    answer = HTTP.get(f"{node.admin_url}/events", params={"limit": 1000}, timeout=REQUEST_S).raise_for_status()
    return [each["text"] for each in answer.json()["events"] if "_FLOW" in each["event"]]


def test_a_link_to_send_on_is_a_publisher_flow_until_its_end(node: GatewayProcess) -> None:
    """One link is detached, the other ends with its connection."""
    node.create_queue("flows")
    connection = BlockingConnection(f"amqp://127.0.0.1:{node.amqp_port}", timeout=ANSWER_S, allowed_mechs="ANONYMOUS")
    first = connection.create_sender("flows", name="first")
    connection.create_sender("flows", name="second")
    assert [text.split(" publisher flow ")[1] for text in texts(node)] == ["first opened", "second opened"]

    first.close()  # type: ignore[no-untyped-call]  # proton left it untyped
    connection.close()

    wait_until(lambda: len(texts(node)) == 4, within_s=ANSWER_S, what="the end of both")
    assert [text.split(" publisher flow ")[1] for text in texts(node)[2:]] == ["first closed", "second closed"]
    assert {text.split(": ")[1] for text in texts(node)} == {"CLIENT_CLIENT_OPEN_FLOW", "CLIENT_CLIENT_CLOSE_FLOW"}
