"""The `sluicegate` command: run a node, publish and subscribe, look after queues.

Commands talk to a node over MQTT or its admin port like anybody else; only `serve` and `check-config` see the inside.
"""

from sluicegate.gateway.cli.app import app, main

__all__ = ["app", "main"]
