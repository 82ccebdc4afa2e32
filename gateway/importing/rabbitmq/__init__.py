"""Definitions of RabbitMQ as `rabbitmqctl export_definitions` and the management plug-in write them, of 3.x and 4.x."""

from sluicegate.gateway.importing.rabbitmq.translate import import_rabbitmq

__all__ = ["import_rabbitmq"]
