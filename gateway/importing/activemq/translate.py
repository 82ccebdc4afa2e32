"""One activemq.xml as a configuration of this broker."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from sluicegate.gateway.importing.activemq.access import take_access
from sluicegate.gateway.importing.activemq.connectors import take_network_connectors, take_transport_connectors
from sluicegate.gateway.importing.activemq.policies import Policies, take_policies
from sluicegate.gateway.importing.activemq.values import flag_of, is_placeholder, number_of, size_of
from sluicegate.gateway.importing.activemq.virtual import take_virtual_destinations
from sluicegate.gateway.importing.imported import Imported, SecretFiles
from sluicegate.gateway.importing.report import ImportFailed, Report
from sluicegate.gateway.importing.xml_text import Element, read_xml

MAP_BYTES_MIN: Final = 16 << 30
USAGE_BYTES_MIN: Final = 1 << 20

USAGES: Final = (("memoryUsage", "spool.memory_bytes_max"), ("storeUsage", "spool.usage_bytes_max"), ("tempUsage", ""))

DIFFERENT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "advisorySupport": "advisories are events here, published below #LOG/ and $SYS/LOG/",
        "brokerName": "the name of the broker is that of --node",
        "dataDirectory": "data.path is a folder of its own: ActiveMQ's store is not read",
        "id": "a name within the file",
        "persistent": "queues are durable: every confirmed message is on disk",
        "schedulerSupport": "a message is delayed by x-opt-delivery-delay of AMQP, or sluicegate-delivery-delay-ms",
        "start": "the broker starts with `sluicegate serve`",
        "useJmx": "figures are at the admin port, as metrics and in SEMP",
    }
)
DIFFERENT_ELEMENTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "managementContext": "figures are at the admin port, as metrics and in SEMP",
        "persistenceAdapter": "ActiveMQ's store is not read; every confirmed message is on disk",
        "persistenceFactory": "ActiveMQ's store is not read; every confirmed message is on disk",
        "shutdownHooks": "SIGTERM ends the broker",
    }
)
NOTHING_LIKE_IT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "sslContext": "key stores of Java are not read: write PEM files, and name them in the listener",
        "jmsBridgeConnectors": "use a bridge over AMQP 1.0",
        "proxyConnectors": "there are no proxies",
        "services": "programs within the broker are not possible",
        "destinationFactory": "programs within the broker are not possible",
        "ioExceptionHandler": "a spool that cannot be written refuses messages, and the readiness probe says so",
    }
)


def import_activemq(path: str, text: str, *, node: str, folder: str) -> Imported:
    """Return the configuration that an activemq.xml becomes. Raises ImportFailed."""
    root = read_xml(text, path)
    brokers = [*root.all("broker")]
    if len(brokers) != 1:
        raise ImportFailed(f"{path}:1", f"it has {len(brokers)} elements <broker>; allowed: one")
    broker = brokers[0]
    imported = Imported({"node": {"name": node}}, SecretFiles(folder), Report())
    report = imported.report
    report.taken(broker.setting(), "the broker")
    for attribute in broker.attributes:
        if attribute in DIFFERENT:
            report.differs(broker.setting(attribute), DIFFERENT[attribute])
    for each in broker.children:
        if each.name in DIFFERENT_ELEMENTS:
            each.note(report.differs, DIFFERENT_ELEMENTS[each.name])
        elif not each.children and not each.attributes:
            report.taken(each.setting(), "it is empty")
        elif each.name in NOTHING_LIKE_IT:
            each.note(report.not_taken, NOTHING_LIKE_IT[each.name])
    take_transport_connectors(broker, imported)
    policies = take_policies(broker, imported)
    _plugins(broker, policies, imported)
    take_virtual_destinations(broker, policies, imported)
    take_access(broker, policies, imported)
    take_network_connectors(broker, policies, imported)
    _system_usage(broker, imported)
    imported.put("queues.templates", policies.templates)
    imported.put("queues.declared", [*policies.declared.values()])
    for each in root.all("import"):
        each.note(report.differs, "other files are not read; the web console is at the admin port")
    _beside(root, report)
    root.finish(report)
    return imported


def _beside(root: Element, report: Report) -> None:
    """Note what is in the file beside the broker."""
    for beans in root.children:
        for each in beans.children:
            if each.name not in ("broker", "import"):
                each.note(report.not_taken, "other beans of Spring than the broker are not read")


def _plugins(broker: Element, policies: Policies, imported: Imported) -> None:
    """Take the plug-ins that are about messages."""
    report = imported.report
    for plugin in broker.all("timeStampingBrokerPlugin"):
        ceiling = number_of(plugin, "ttlCeiling") if "ttlCeiling" in plugin.attributes else 0
        zero = number_of(plugin, "zeroExpirationOverride") if "zeroExpirationOverride" in plugin.attributes else 0
        limit = min([each for each in (ceiling, zero) if each > 0], default=0)
        plugin.is_noted = True
        for attribute in ("ttlCeiling", "zeroExpirationOverride"):
            if attribute in plugin.attributes:
                policies.set_everywhere("max_ttl", -(-limit // 1000))
                report.taken(plugin.setting(attribute), f"max_ttl: {-(-limit // 1000)} of all queues")
        report.differs(plugin.setting(), "the time of a message is its publisher's")
    for plugin in broker.all("redeliveryPlugin"):
        report.taken(plugin.setting(), "redelivery of all queues")
        for each in plugin.all("redeliveryPolicy"):
            _redelivery(each, policies, imported)
        for attribute in plugin.attributes:
            report.differs(plugin.setting(attribute), "a message that has failed too often goes to dead_msg_queue")
    for name in ("discardingDLQBrokerPlugin",):
        for plugin in broker.all(name):
            if flag_of(plugin, "dropAll", True):
                policies.set_everywhere("dead_msg_queue", "")
                report.taken(plugin.setting(), "dead_msg_queue: empty, of all queues")
            else:
                plugin.note(report.not_taken, "give the queues that it is about an empty dead_msg_queue")


def _redelivery(policy: Element, policies: Policies, imported: Imported) -> None:
    report = imported.report
    if policy.get("queue") or policy.get("topic"):
        report.not_taken(policy.setting(), "only the policy for all queues is taken")
        return
    report.taken(policy.setting(), "redelivery of all queues")
    delay = 0
    for attribute in ("initialRedeliveryDelay", "redeliveryDelay", "maximumRedeliveryDelay", "maximumRedeliveries"):
        if attribute not in policy.attributes:
            continue
        value = number_of(policy, attribute)
        if attribute == "maximumRedeliveries":
            policies.set_everywhere("max_redelivery_count", min(max(value, 0), 255))
        elif attribute == "maximumRedeliveryDelay" and value > 0:
            policies.set_everywhere("redelivery_delay_max_interval_ms", min(value, 10_800_000))
        elif value > 0:
            delay = delay or min(value, 10_800_000)
        report.taken(policy.setting(attribute), f"{value}")
    for attribute in ("useExponentialBackOff", "backOffMultiplier"):
        if attribute in policy.attributes:
            report.taken(policy.setting(attribute), "redelivery_delay_multiplier of all queues")
    if delay:
        policies.set_everywhere("redelivery_delay_enabled", True)
        policies.set_everywhere("redelivery_delay_initial_interval_ms", delay)
        multiplier = 100
        if flag_of(policy, "useExponentialBackOff", False):
            try:
                multiplier = min(max(int(float(policy.get("backOffMultiplier", "5")) * 100), 100), 500)
            except (ValueError, OverflowError):
                raise ImportFailed(
                    policy.setting("backOffMultiplier").where, "backOffMultiplier is no number"
                ) from None
        policies.set_everywhere("redelivery_delay_multiplier", multiplier)


def _system_usage(broker: Element, imported: Imported) -> None:
    report = imported.report
    for outer in broker.children:
        if outer.name != "systemUsage":
            continue
        for name, path in USAGES:
            for each in outer.all(name):
                if not each.attributes:
                    continue
                each.is_noted = True
                if "limit" not in each.attributes or is_placeholder(each.attributes["limit"]) or not path:
                    each.note(report.not_taken, f"set {path or 'spool.usage_bytes_max'} as a number of bytes")
                    continue
                value = max(size_of(each, "limit"), USAGE_BYTES_MIN)
                imported.put(path, value)
                each.get("name")
                report.taken(each.setting("limit"), f"{path}: {value}")
                if name == "storeUsage":
                    imported.put("spool.map_bytes_max", max(MAP_BYTES_MIN, value + value // 3))
                    report.differs(each.setting("limit"), "a full store refuses messages; producers are not blocked")
        for attribute in outer.attributes:
            report.differs(outer.setting(attribute), "a full store refuses messages; producers are not blocked")
        outer.is_noted = True
        for each in outer.all("systemUsage"):
            for attribute in each.attributes:
                report.differs(each.setting(attribute), "a full store refuses messages; producers are not blocked")
