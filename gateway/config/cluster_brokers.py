"""The configuration of one broker of a machine that runs replicas of several: the part of it that is the broker's own.

The file has what all brokers share, and for each its replicas, its ports, and settings of its own, which count before
those of the file, and behind those of the environment and the command line.
"""

from pathlib import Path as FilePath
from typing import Any, Final

from sluicegate.gateway.config.document import ConfigError, Document, Path, Problem
from sluicegate.gateway.config.model import Config

PORT_MAX: Final = 65_535


def chosen_broker(document: Document) -> str:
    """Return the broker of several that this process is for; empty if it is for none of them."""
    cluster = document.root.get("cluster")
    name = cluster.get("broker") if isinstance(cluster, dict) else None
    return name if isinstance(name, str) and _entry(document, name) is not None else ""


def take_settings(document: Document, name: str) -> None:
    """Put the settings of a broker in the place of those that all share."""
    entry = _entry(document, name) or {}
    settings = entry.get("settings")
    if isinstance(settings, dict):
        _merge(document, document.root, settings, ("cluster", "brokers", name, "settings"), ())


def take_identity(document: Document, name: str) -> None:
    """Give the node the name of the broker, and its replicas."""
    entry = _entry(document, name) or {}
    node = document.root.setdefault("node", {})
    cluster = document.root["cluster"]
    if isinstance(node, dict):
        node["name"] = name
    if isinstance(cluster, dict) and "replicas" in entry:
        cluster["replicas"] = entry["replicas"]


def own_part(config: Config) -> Config:
    """Return the configuration with the folders and ports of the broker that it is for.

    Raises ConfigError for a port that there is not.
    """
    name = config.cluster.broker
    if not name:
        return config
    offset = config.cluster.brokers[name].port_offset

    def moved(section: Any, where: str) -> Any:  # of any of the ports
        port: int = section.port
        if not port or not offset:
            return section
        if port + offset > PORT_MAX:
            text = f"port {port} of {where} and {offset} are {port + offset}; ports are 1 to {PORT_MAX}"
            place = Document().place(())
            raise ConfigError([Problem(place, f"cluster.brokers.{name}.port_offset", text)])
        return section.model_copy(update={"port": port + offset})

    listeners = {each: moved(listener, f"listeners.{each}") for each, listener in config.listeners.by_name().items()}
    admin = config.admin.model_copy(update={"tls": moved(config.admin.tls, "admin.tls")})
    return config.model_copy(
        update={
            "data": config.data.model_copy(update={"path": config.data.path / name}),
            "backup": config.backup.model_copy(update={"path": config.backup.path / name}),
            "log": config.log.model_copy(update={"audit_file": _own(config.log.audit_file, name)}),
            "listeners": config.listeners.model_copy(update=listeners),
            "admin": moved(admin, "admin"),
            "health": moved(config.health, "health"),
        }
    )


def _own(file: FilePath | None, name: str) -> FilePath | None:
    """Return a file of the broker's own, beside those of the others."""
    return None if file is None else file.with_name(f"{file.stem}-{name}{file.suffix}")


def _entry(document: Document, name: str) -> dict[str, object] | None:
    cluster = document.root.get("cluster")
    brokers = cluster.get("brokers") if isinstance(cluster, dict) else None
    entry = brokers.get(name) if isinstance(brokers, dict) else None
    return entry if isinstance(entry, dict) else None


def _merge(document: Document, into: dict[str, object], given: dict[str, object], at: Path, to: Path) -> None:
    """Put values into a mapping: mappings in mappings, everything else in the place of what was there."""
    for key, value in given.items():
        before = into.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            _merge(document, before, value, (*at, key), (*to, key))
            continue
        into[key] = value
        length = len(at) + 1
        for places in (document.values, document.keys):
            for path in [each for each in places if each[:length] == (*at, key)]:
                places[(*to, *path[len(at) :])] = places[path]
