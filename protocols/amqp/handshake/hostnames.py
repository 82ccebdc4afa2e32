"""The message VPN that a client means by the `hostname` of its sasl-init or open (2.7.1, 5.3.3.2).

A client puts there what it has connected to, most of the time without its user's doing. So only a hostname that says
that it is no host names a VPN: `vpn:sales`, or `vhost:sales` as clients of RabbitMQ have it.
"""

from typing import Final

PREFIXES: Final = ("vpn:", "vhost:")


def vpn_of_hostname(hostname: str | None) -> str | None:
    """Return the VPN that a hostname names, if it names one."""
    if hostname is not None:
        for prefix in PREFIXES:
            if hostname.startswith(prefix):
                return hostname[len(prefix) :]
    return None
