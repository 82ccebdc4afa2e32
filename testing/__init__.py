"""Brokers for tests of applications: `with sluicegate.testing.Broker() as broker:`, and fixtures for pytest.

A test starts a broker on free ports and an empty folder, has its application use it, looks into queues, cuts
connections, lets time pass, and stops or kills it. `docs/connect/test-your-application.md` is for its users.

The names below are loaded when they are first used: pytest imports this package in every run, with the plugin. Nothing
of the broker may import it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluicegate.testing.async_broker import AsyncBroker
    from sluicegate.testing.broker import Broker
    from sluicegate.testing.errors import BrokerFailed, OperationRefused
    from sluicegate.testing.messages import QueueState, StoredMessage
else:
    from importlib import import_module

    _MODULES = {
        "AsyncBroker": "async_broker",
        "Broker": "broker",
        "BrokerFailed": "errors",
        "OperationRefused": "errors",
        "QueueState": "messages",
        "StoredMessage": "messages",
    }

    def __getattr__(name: str) -> object:
        """Return a public name, from its module (PEP 562)."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)

    def __dir__() -> list[str]:
        """Return the module's names and the public ones."""
        return sorted({*globals(), *_MODULES})


__all__ = ["AsyncBroker", "Broker", "BrokerFailed", "OperationRefused", "QueueState", "StoredMessage"]
