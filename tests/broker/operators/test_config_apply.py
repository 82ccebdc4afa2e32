"""`sluicegate config apply` on a whole node: it makes what the document declares, and a restart keeps it."""

import asyncio
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from sluicegate.gateway.cli import app
from sluicegate.gateway.operations.node import NodeOperations
from support.broker.running_broker import RunningBroker

pytestmark = pytest.mark.settings("admin.enabled=true", "admin.port=0")

DOCUMENT: Final = """
version: 1
message_vpns:
  default:
    queue_templates:
      - {name: t, queue_name_filter: orders/>, max_ttl: 3}
    queues:
      - {name: orders/eu, access_type: non-exclusive, partition_count: 4, subscriptions: [orders/eu/>, back/*]}
      - {name: orders/us, event_bind_count_threshold: 30/20}
      - {name: "#DEAD_MSG_QUEUE"}
    client_profiles:
      - {name: small, max_connection_count: 3}
    acl_profiles:
      - {name: devices, publish_topic_exceptions: [{topic: up/>}], client_connect_exceptions: [10.0.0.0/8]}
    users:
      - {name: ada, password: grace, client_profile: small, acl_profile: devices}
    rest_delivery_points:
      - name: mail
        enabled: false
        queue_bindings: [{queue: orders/eu, post_request_target: /in}]
        rest_consumers: [{name: one, remote_host: 127.0.0.1, remote_port: 9}]
"""


async def config(broker: RunningBroker, *arguments: str, exit_code: int = 0) -> str:
    """Return what `sluicegate config` says on standard output."""
    admin = broker.operator_ports.ports.servers["admin"]
    shell = CliRunner(env={"SLUICEGATE_URL": f"http://127.0.0.1:{admin.port}", "NO_COLOR": "1"})
    result = await asyncio.to_thread(shell.invoke, app, ["config", *arguments])
    assert result.exit_code == exit_code, (result.stdout, result.stderr, result.exception)
    return result.stdout


async def test_an_applied_document_shows_no_differences_after_a_restart(broker: RunningBroker, tmp_path: Path) -> None:
    """Templates do not count for queues of a document, and what the node makes of an object is no difference."""
    file = tmp_path / "wanted.yaml"
    file.write_text(DOCUMENT)
    made = await config(broker, "apply", str(file))
    assert [line for line in made.splitlines() if line.startswith("+")] == [
        "+ default: queue template t",
        "+ default: queue #DEAD_MSG_QUEUE",
        "+ default: queue orders/eu",
        "+ default: queue orders/us",
        "+ default: client profile small",
        "+ default: ACL profile devices",
        "+ default: user ada",
        "+ default: REST delivery point mail",
    ]
    assert '    subscriptions: ["back/*","orders/eu/>"]\n' in made
    assert "    enabled: false\n" in made
    client = await broker.connect("mqtt-session", level=5)
    await client.subscribe("t", qos=1)  # which has a queue of the gateway's own
    assert await config(broker, "apply", str(file), "--prune") == ""
    await broker.restart()
    exported = await config(broker, "export")
    assert "max_ttl: 3" in exported
    assert "grace" not in exported
    file.write_text(exported)
    assert await config(broker, "apply", str(file), "--prune") == ""
    file.write_text("version: 1\nmessage_vpns: {default: {queues: [], users: [], rest_delivery_points: []}}\n")
    gone = await config(broker, "apply", str(file), "--prune")
    assert len(gone.splitlines()) == 5
    assert "max_ttl: 3" in await config(broker, "export")
    file.write_text("version: 1\nmessage_vpns: {nowhere: {queues: []}}\n")
    await config(broker, "apply", str(file), exit_code=1)


async def test_a_queue_that_consumes_a_pattern_of_topics_is_written_down_and_made_again(
    broker: RunningBroker, tmp_path: Path
) -> None:
    """docs/concepts/virtual-destinations.md: names with wildcards. The gateway knows which queue may be called so."""
    pattern = "Consumer.A.VirtualTopic.Orders.>"
    client = await broker.connect(level=5)
    assert await client.subscribe(f"$queue/{pattern}", qos=1) == [1]
    file = tmp_path / "wanted.yaml"
    file.write_text(await config(broker, "export"))
    assert await config(broker, "apply", str(file)) == ""
    await NodeOperations(broker.node).delete_queue(pattern)
    assert f"+ default: queue {pattern}\n" in await config(broker, "apply", str(file))
    file.write_text(file.read_text().replace(pattern, "Consumer.A.Other.>"))
    await config(broker, "apply", str(file), exit_code=1)
