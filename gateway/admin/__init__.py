"""The HTTP port for operators: health, metrics, actors and queues. It asks a `NodePort` and holds no state of its own.

Message traffic over HTTP is a protocol and lives in `protocols/http`, on another port.
"""

from gateway.admin.app import build_app
from gateway.admin.server import AdminServer, serve_admin

__all__ = ["AdminServer", "build_app", "serve_admin"]
