"""activemq.xml of ActiveMQ Classic 5 and 6."""

from sluicegate.gateway.importing.activemq.translate import import_activemq

__all__ = ["import_activemq"]
