"""The HTTP port for operators: health, metrics, actors and queues. It asks a `NodeInterface`, and has no state.

Message traffic over HTTP is a protocol and lives in `protocols/http`, on another port. `server` starts it; `app` puts
SEMP beside the operations of its own, and SEMP uses what is below both: requests, problems, permission.
"""
