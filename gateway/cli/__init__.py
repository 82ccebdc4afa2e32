"""The `sluicegate` command: run a node, publish and subscribe, manage queues.

Commands talk to a node over MQTT, the flow protocol or its admin port, as any client does. Only `serve`,
`check-config`, `doctor` and `restore` use the code of the node.
"""

from sluicegate.gateway.cli.app import app, main

__all__ = ["app", "main"]
