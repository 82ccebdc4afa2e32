"""Warn of settings that are allowed, and that their owner may not have meant.

gateway.config refuses what is not allowed. Only files that settings name are opened here.
"""

import os
import resource
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sluicegate.gateway.config.model import Config
from sluicegate.gateway.config.sections.listeners import Listener, TlsListener, is_loopback
from sluicegate.gateway.config.sections.message_vpns.message_vpns import vpn_setting
from sluicegate.gateway.config.sections.node import Queues
from sluicegate.gateway.config.settings.virtual_doubles import doubled_messages
from sluicegate.gateway.node.os_limits import files_configured
from sluicegate.gateway.security.credentials import validity_of
from sluicegate.protocols.security.scram import ITERATIONS_MIN, few_iterations, iterations_of
from sluicegate.protocols.transport.origins import ANY
from sluicegate.storage.integrity.inspection import Severity, SpoolFinding

MAP_SHARE_MAX: Final = 0.75  # of the map, for payload; the rest is for keys, headers and free pages


def lint(config: Config, *, now_s: float) -> Iterator[SpoolFinding]:
    """Yield warnings about a configuration. `now_s` is the time in seconds since the epoch, for certificates."""
    yield from _reachable(config)
    yield from _web_pages(config)
    yield from _files(config)
    yield from _scram_keys(config)
    yield from _certificates(config, now_s)
    yield from _spool(config)
    yield from _queues(config)
    yield from _limits(config)
    yield from _bridges(config)


def _warning(setting: str, text: str) -> SpoolFinding:
    return SpoolFinding(Severity.WARNING, setting, text)


def _reachable(config: Config) -> Iterator[SpoolFinding]:
    """Check ports that other machines can reach."""
    if config.admin.enabled and not is_loopback(config.admin.host):
        yield _warning("admin.host", f"operators' passwords are sent to {config.admin.host} without TLS")
    for name, listener in config.listeners.enabled().items():
        if is_loopback(listener.host):
            continue
        setting = f"listeners.{name}.host"
        if not isinstance(listener, TlsListener):
            yield _warning(setting, f"passwords and messages are sent to {listener.host} without TLS")
        authentication = config.message_vpn(listener.vpn).authentication
        if authentication.allow_anonymous is True and not _asks_for_a_certificate(listener):
            where = vpn_setting(listener.vpn, "authentication.allow_anonymous")
            yield _warning(setting, f"anyone who can reach {listener.host} may connect: {where} is true")


def _web_pages(config: Config) -> Iterator[SpoolFinding]:
    """Check ports that any web page may use."""
    for name, origins in (
        ("mqtt", config.mqtt.allowed_origins),
        ("amqp", config.amqp.allowed_origins),
        ("http", config.http.allowed_origins),
    ):
        if ANY in origins:
            text = f"{ANY!r}: every web page may use these ports through the browser of its visitor"
            yield _warning(f"{name}.allowed_origins", text)
    if ANY in config.node.allowed_hosts:
        text = f"{ANY!r}: a web page whose host name resolves to this node may use every port that needs no login"
        yield _warning("node.allowed_hosts", text)


def _asks_for_a_certificate(listener: Listener) -> bool:
    return isinstance(listener, TlsListener) and listener.client_ca is not None


def _files(config: Config) -> Iterator[SpoolFinding]:
    """Check for secret files that other users of this machine can read."""
    secrets: list[tuple[str, Path]] = []
    for name, port in config.tls_ports().items():
        if port.key is not None:
            secrets.append((f"{name}.key", port.key))
    for place, account in config.accounts():
        if account.password_file is not None and not account.is_hashed():
            section = ".".join(str(part) for part in place[:-1])
            secrets.append((f"{section}: {account.name}: password_file", account.password_file))
    for name, vpn in config.message_vpns().items():
        for bridge in vpn.bridges:
            for key, file in (("password_file", bridge.password_file), ("tls_certificate_key_file", bridge.tls_key())):
                if file is not None and file.exists():
                    secrets.append((vpn_setting(name, f"bridges: {bridge.name}: {key}"), file))
    for setting, path in secrets:
        mode = path.stat().st_mode
        if mode & stat.S_IRWXO:
            yield _warning(setting, f"every user of this machine can read {path} (mode {stat.S_IMODE(mode):04o})")


def _bridges(config: Config) -> Iterator[SpoolFinding]:
    """Check bridges for passwords without TLS, and for queues that nobody declares or other consumers share."""
    for name, vpn in config.message_vpns().items():
        declared = {queue.config.name: queue.config for queue in vpn.queues.declared}
        for where, text in doubled_messages(vpn):
            yield _warning(vpn_setting(name, where), text)
        for bridge in vpn.bridges:
            setting = vpn_setting(name, f"bridges: {bridge.name}")
            scheme, host, _, _ = bridge.address()
            if bridge.username and not scheme.endswith("s") and not is_loopback(host):
                yield _warning(setting, f"its password is sent to {host} without TLS; with TLS: {scheme}s://")
            for queue in [each.queue for each in bridge.outgoing if each.queue]:
                if queue not in declared:
                    yield _warning(setting, f"queue {queue!r} is not declared; the bridge waits until there is one")


def _scram_keys(config: Config) -> Iterator[SpoolFinding]:
    """Check for SCRAM keys with few iterations, from which passwords are easier to guess."""
    for place, account in config.accounts():
        count = iterations_of(account.secret()) if account.has_secret() else 0
        if 0 < count < ITERATIONS_MIN:
            section = ".".join(str(part) for part in place[:-1])
            yield _warning(f"{section}: {account.name}", few_iterations(count))


def _certificates(config: Config, now_s: float) -> Iterator[SpoolFinding]:
    for name, port in config.tls_ports().items():
        assert port.certificate is not None, "checked with the configuration"
        validity = validity_of(port.certificate)
        problem = "" if validity is None else validity.problem(now_s)
        if problem:
            yield _warning(f"{name}.certificate", f"{port.certificate} {problem}")


def _spool(config: Config) -> Iterator[SpoolFinding]:
    spool = config.spool
    if not spool.sync:
        yield _warning("spool.sync", "false: a power failure can lose confirmed messages")
    if spool.usage_bytes_max > MAP_SHARE_MAX * spool.map_bytes_max:
        share = f"{100 * spool.usage_bytes_max // spool.map_bytes_max}%"
        yield _warning("spool.usage_bytes_max", f"{share} of spool.map_bytes_max: leave a quarter of it free")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if spool.memory_bytes_max > memory // 2:
        yield _warning("spool.memory_bytes_max", f"more than half of this machine's memory ({memory} bytes)")
    data, backup = config.data.path.absolute(), config.backup.path.absolute()
    if backup == data or data in backup.parents:
        yield _warning("backup.path", f"backups are stored in the data folder {data}, and would be lost with it")


def _queues(config: Config) -> Iterator[SpoolFinding]:
    for name, vpn in config.message_vpns().items():
        yield from _queues_of(config, name, vpn.queues)


def _queues_of(config: Config, vpn: str, queues: Queues) -> Iterator[SpoolFinding]:
    names = {definition.config.name for definition in queues.declared}
    for definition in queues.declared:
        queue = definition.config
        setting = vpn_setting(vpn, f"queues.declared: {queue.name}")
        if queue.max_redelivery_count == 0 and queue.redelivery_enabled:
            yield _warning(setting, "max_redelivery_count is 0: a message that always fails is redelivered without end")
        elif queue.dead_msg_queue and queue.dead_msg_queue not in names:
            text = f"its dead_msg_queue {queue.dead_msg_queue!r} is not declared: without it, dead messages are lost"
            yield _warning(setting, text)
        if queue.spool_bytes_max() > config.spool.usage_bytes_max and not queue.last_value_only():
            yield _warning(setting, "its max_msg_spool_usage is above spool.usage_bytes_max, which then limits it")
        if queue.max_ttl and not queue.respect_ttl_enabled:
            yield _warning(setting, "max_ttl has no effect without respect_ttl_enabled")


def _limits(config: Config) -> Iterator[SpoolFinding]:
    wanted = files_configured(config)
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)  # a node raises its limit to this
    room = config.backpressure.unfinished_bytes_max
    for setting, largest in (
        ("mqtt.maximum_packet_size", config.mqtt.maximum_packet_size),
        ("amqp.max_message_size", config.amqp.max_message_size),
        ("flow.max_frame_size", config.flow.max_frame_size),
        ("http.max_body_size", config.http.max_body_size),
    ):
        if largest > room:
            text = f"less than {setting} ({largest} bytes): a message of that size closes its client's connection"
            yield _warning("backpressure.unfinished_bytes_max", text)
    if allowed != resource.RLIM_INFINITY and allowed < wanted:
        text = f"the node may need {wanted} open files in total, and this process may open {allowed}"
        yield _warning("listeners: max_connections", text)
