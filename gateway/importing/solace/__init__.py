"""Message VPNs of Solace PubSub+, as SEMP v2 shows their configuration: objects with their collections in them."""

from sluicegate.gateway.importing.solace.translate import import_solace

__all__ = ["import_solace"]
