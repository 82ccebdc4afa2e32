"""The validity of the certificates of TLS ports. An expired one is still presented, and clients refuse it."""

import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from sluicegate.protocols.transport.listeners import BaseListener

log = logging.getLogger("sluicegate.node")

SOON_S: Final = 14 * 86_400  # warn of a certificate at most so long before it expires
SOON_SHARE: Final = 0.1  # of its lifetime, for certificates valid for a few days


class Validity(NamedTuple):
    """The period in which a certificate is valid, in seconds since the epoch."""

    begins_s: float
    ends_s: float

    def problem(self, now_s: float) -> str:
        """Return why clients refuse it, or that it expires soon; empty if neither."""
        if now_s < self.begins_s:
            return f"is not valid before {_utc(self.begins_s)}, and clients refuse it"
        if now_s >= self.ends_s:
            return f"expired at {_utc(self.ends_s)}, and clients refuse it"
        if self.ends_s - now_s < min(SOON_S, SOON_SHARE * (self.ends_s - self.begins_s)):
            return f"expires at {_utc(self.ends_s)}"
        return ""


def validity_of(certificate: Path) -> Validity | None:
    """Return the validity of the first certificate in a PEM file that TLS loaded; None if it cannot be read now."""
    from cryptography import x509  # late: a node without TLS ports starts without it

    try:
        first = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError):
        return None
    return Validity(first.not_valid_before_utc.timestamp(), first.not_valid_after_utc.timestamp())


def check_certificates(listeners: Iterable[BaseListener], *, now_s: float) -> dict[str, Validity]:
    """Return the validity of the certificate of each TLS listener, by its name. Problems are logged."""
    found: dict[str, Validity] = {}
    for listener in listeners:
        validity = None if listener.certificate is None else validity_of(listener.certificate)
        if validity is not None:
            found[listener.name] = validity
            if problem := validity.problem(now_s):
                log.warning("%s: certificate %s %s", listener.name, listener.certificate, problem)
    return found


def _utc(moment_s: float) -> str:
    return datetime.fromtimestamp(moment_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
