"""One file of definitions as a configuration of this broker: a message VPN for each virtual host."""

import re
from typing import Final

from sluicegate.gateway.importing.imported import Imported, SecretFiles
from sluicegate.gateway.importing.json_text import Item, read_json
from sluicegate.gateway.importing.names import vpn_name
from sluicegate.gateway.importing.rabbitmq.access import take_users
from sluicegate.gateway.importing.rabbitmq.parameters import take_limits, take_parameter
from sluicegate.gateway.importing.rabbitmq.queues import take_queues
from sluicegate.gateway.importing.rabbitmq.routing import take_routing
from sluicegate.gateway.importing.rabbitmq.vhost import ROOT, VirtualHost
from sluicegate.gateway.importing.report import ImportFailed, Report, Setting
from sluicegate.messaging.message.vpn import DEFAULT_VPN

ABOUT_THE_FILE: Final = (
    "rabbit_version", "rabbitmq_version", "product_name", "product_version", "rabbitmq_definition_format",
    "original_cluster_name", "explanation", "original_vhost_name", "metadata", "description", "default_queue_type",
    "vhost_created_at",
)  # fmt: skip
LISTS: Final = ("queues", "exchanges", "bindings", "policies", "permissions", "topic_permissions")
VHOST_OPTIONS: Final = {
    "default_queue_type": "there is one type of queue: what a client creates is durable, or temporary and its own",
    "protected_from_deletion": "a message VPN is deleted by who edits the configuration",
    "tracing": "messages are not copied to an exchange: `sluicegate client trace` shows what one client does",
}
PROTOCOLS: Final = (
    "clients of AMQP 0.9.1 and STOMP have to use AMQP 1.0, MQTT or the flow protocol; ports and certificates are in "
    "rabbitmq.conf, which is not read: listeners have their defaults, on this machine only"
)


def import_rabbitmq(path: str, text: str, *, node: str, folder: str) -> Imported:
    """Return the configuration that definitions become. Raises ImportFailed."""
    root = read_json(text, path, "definitions")
    if not any(key in root.values for key in (*LISTS, "vhosts", "users")):
        raise ImportFailed(f"{path}:1", f"these are no definitions of RabbitMQ: there are none of {', '.join(LISTS)}")
    imported = Imported({"node": {"name": node}}, SecretFiles(folder), Report())
    imported.put("authentication.allow_anonymous", False)
    report = imported.report
    for key in root.values:
        if key in ABOUT_THE_FILE:
            report.taken(root.setting(key), "about the file")
    vhosts = _vhosts(root, imported)
    _distribute(root, vhosts, imported)
    version = root.text("rabbitmq_version") or root.text("rabbit_version")
    first = re.match("[0-9]{1,9}", version)
    number = int(first[0]) if first is not None else 0
    for vhost in vhosts:
        take_queues(vhost, report, version=number)
        take_routing(vhost, report)
    for parameter in root.items("parameters", "parameter"):
        vhost = _of(parameter, vhosts)
        if parameter.text("component") != "operator_policy":
            take_parameter(parameter, vhost, imported)
    for parameter in root.items("global_parameters", "global parameter"):
        report.not_taken(parameter.setting(), "parameters of a cluster of RabbitMQ have no meaning here")
        parameter.skip()
    take_users(root, vhosts, imported)
    for vhost in vhosts:
        for permission in (*vhost.permissions, *vhost.topic_permissions):
            _unused(permission, imported)
        if vhost.declared:
            vhost.section.setdefault("queues", {})["declared"] = [*vhost.declared.values()]
    report.differs(Setting("", "protocols"), PROTOCOLS)
    root.document.finish(report)
    return imported


def _vhosts(root: Item, imported: Imported) -> list[VirtualHost]:
    found: dict[str, VirtualHost] = {}
    names = [(each.text("name"), each) for each in root.items("vhosts", "virtual host")]
    for name, item in names:
        vhost = _vhost(name, found, imported)
        imported.report.taken(item.setting(), f"message VPN {vhost.vpn}")
        if vhost.vpn != DEFAULT_VPN:
            text = f"clients name it: USER@{vhost.vpn} (MQTT: not {name}:USER), or the AMQP host name vhost:{vhost.vpn}"
            imported.report.differs(item.setting(), text)
        item.skip("name", "metadata", "description", "tags", "default_queue_type", "protected_from_deletion", "tracing")
        _note_options(item, imported.report)
        limits = item.values.get("limits")
        if isinstance(limits, dict):
            take_limits(item.inner("limits"), vhost, imported)
        elif not limits:
            item.skip("limits")
    if not found:
        _vhost(ROOT, found, imported)
    return [*found.values()]


def _note_options(item: Item, report: Report) -> None:
    """Note what a virtual host is told to do and a message VPN does not. Its description and tags do nothing."""
    metadata = item.values.get("metadata")
    for each in (item, *((item.inner("metadata"),) if isinstance(metadata, dict) else ())):
        for key, text in VHOST_OPTIONS.items():
            if each.values.get(key) not in (None, False, "", "undefined", "classic"):
                report.differs(each.setting(key), text)


def _vhost(name: str, found: dict[str, VirtualHost], imported: Imported) -> VirtualHost:
    if name not in found:
        vpn = vpn_name(name, [each.vpn for each in found.values()] + ([] if name == ROOT else [DEFAULT_VPN]))
        section = imported.configuration if vpn == DEFAULT_VPN else imported.section("vpns").setdefault(vpn, {})
        found[name] = VirtualHost(name, vpn, section)
    return found[name]


def _of(item: Item, vhosts: list[VirtualHost]) -> VirtualHost:
    """Return the virtual host of an object; without a name, of a file about one virtual host, the only one."""
    name = item.text("vhost", vhosts[0].name)
    for vhost in vhosts:
        if vhost.name == name:
            return vhost
    raise ImportFailed(item.setting("vhost").where, f"there is no virtual host {name!r} in these definitions")


def _distribute(root: Item, vhosts: list[VirtualHost], imported: Imported) -> None:
    labels = {"queues": "queue", "exchanges": "exchange", "bindings": "binding", "policies": "policy"}
    for kind in LISTS:
        for item in root.items(kind, labels.get(kind, kind.rstrip("s").replace("_", " "))):
            getattr(_of(item, vhosts), kind).append(item)
    for item in root.items("parameters", "operator policy"):
        if item.text("component") == "operator_policy":
            item.skip("component", "vhost", "name")
            value = item.inner("value")
            value.skip("pattern", "priority", "apply-to")
            _of(item, vhosts).operator_policies.append(value)
            imported.report.taken(item.setting(), "the smaller of its numbers and a queue's own counts")
    for vhost in vhosts:
        for policy in vhost.policies:
            policy.skip("name", "vhost", "pattern", "priority", "apply-to")
            imported.report.taken(policy.setting(), "applied to the queues of these definitions, not to later ones")


def _unused(permission: Item, imported: Imported) -> None:
    if permission.setting("read") not in {each.setting for each in imported.report.notes}:
        imported.report.not_taken(permission.setting(), f"there is no user {permission.text('user')!r}")
        for key in ("configure", "write", "read"):
            if key in permission.values:
                imported.report.not_taken(permission.setting(key), f"there is no user {permission.text('user')!r}")
        permission.skip()
