"""One mosquitto.conf as a configuration of this broker."""

from collections.abc import Sequence

from sluicegate.gateway.importing.imported import Imported, SecretFiles
from sluicegate.gateway.importing.mosquitto.access import take_access
from sluicegate.gateway.importing.mosquitto.bridges import take_bridges
from sluicegate.gateway.importing.mosquitto.conf import SourceFiles, read_conf
from sluicegate.gateway.importing.mosquitto.general import take_general
from sluicegate.gateway.importing.mosquitto.listeners import take_listeners
from sluicegate.gateway.importing.mosquitto.volumes import Volume
from sluicegate.gateway.importing.report import Report


def import_mosquitto(
    path: str, files: SourceFiles, *, node: str, folder: str, volumes: Sequence[Volume] = ()
) -> Imported:
    """Return the configuration that a mosquitto.conf and the files that it names become. Raises ImportFailed.

    `node` is the name of the new broker, `folder` that of its configuration; `volumes` are those of a container whose
    paths the file names.
    """
    conf = read_conf(path, files, volumes)
    imported = Imported({"node": {"name": node}}, SecretFiles(folder), Report())
    listeners = take_listeners(conf, imported)
    take_general(conf, imported)
    take_access(conf, listeners, files, imported)
    take_bridges(conf, imported)
    imported.report.finish(conf.lines)
    return imported
