"""mosquitto.conf, with its password file, its ACL file and its bridges, as of mosquitto 1.4 to 2.1."""

from sluicegate.gateway.importing.mosquitto.translate import import_mosquitto

__all__ = ["import_mosquitto"]
