"""What a node is told to be: one frozen value, from defaults, a file, the environment and the command line.

`load` is the only way in; everything else in here serves it. Nothing reads the environment or a file after that.
"""

from gateway.config.admin import Admin
from gateway.config.authentication import Authentication, User
from gateway.config.errors import ConfigError, Problem
from gateway.config.listeners import Listener, Listeners, TlsListener, WebSocketListener, WebSocketTlsListener
from gateway.config.load import load
from gateway.config.model import Config
from gateway.config.reload import RELOADABLE, Change, Changes, diff
from gateway.config.sections import Backpressure, Data, Log, Metrics, Mqtt, Node, Queues, Spool

__all__ = [
    "RELOADABLE",
    "Admin",
    "Authentication",
    "Backpressure",
    "Change",
    "Changes",
    "Config",
    "ConfigError",
    "Data",
    "Listener",
    "Listeners",
    "Log",
    "Metrics",
    "Mqtt",
    "Node",
    "Problem",
    "Queues",
    "Spool",
    "TlsListener",
    "User",
    "WebSocketListener",
    "WebSocketTlsListener",
    "diff",
    "load",
]
