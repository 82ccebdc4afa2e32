"""Server-side TLS contexts, made from files on disk.

Handshakes are the listener's. Client certificates are verified here, and named in `PeerInfo`; what a name may do is
decided by authorization.
"""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final


class TlsFilesRefused(ValueError):
    """A certificate, key or authority file is missing or unusable. The text names the file."""


class ClientCertificates(Enum):
    """What a listener asks of its clients."""

    IGNORED = ssl.CERT_NONE
    OPTIONAL = ssl.CERT_OPTIONAL  # verified when the client shows one
    REQUIRED = ssl.CERT_REQUIRED


class CertificateUser(Enum):
    """What of a client's certificate is its user name."""

    COMMON_NAME = "common-name"
    DNS_NAME = "dns-name"  # the first subject alternative name of its kind
    EMAIL = "email"
    URI = "uri"


_ALTERNATIVE_NAMES: Final = {
    CertificateUser.DNS_NAME: "DNS",
    CertificateUser.EMAIL: "email",
    CertificateUser.URI: "URI",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Where a listener's TLS identity lies, and whom it trusts. PEM files; read again at each reload."""

    certificate: Path  # the server's certificate, then the chain up to its authority
    private_key: Path
    client_authorities: Path | None = None  # who may have signed a client's certificate
    client_certificates: ClientCertificates = ClientCertificates.IGNORED
    client_revocations: Path | None = None  # certificate revocation lists; with them, each authority's is required
    certificate_user: CertificateUser = CertificateUser.COMMON_NAME
    alpn: tuple[str, ...] = ()  # in order of preference; empty: none is negotiated

    def context(self) -> ssl.SSLContext:
        """Read the files. TLS 1.2 is the oldest version spoken.

        Raises TlsFilesRefused when a file is missing, is no PEM, or the key is not the certificate's.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION  # in which a writer would have to wait for the peer
        context.verify_mode = self.client_certificates.value
        if self.client_certificates is not ClientCertificates.IGNORED and self.client_authorities is None:
            raise TlsFilesRefused("client certificates cannot be verified: no file of client authorities is given")
        load_certificate(context, self.certificate, self.private_key)
        if self.client_authorities is not None:
            with reading(f"client authorities {self.client_authorities}", "certificates in PEM"):
                context.load_verify_locations(self.client_authorities)
        if self.client_revocations is not None:
            with reading(f"revocation lists {self.client_revocations}", "revocation lists in PEM"):
                context.load_verify_locations(self.client_revocations)
            context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
        if self.alpn:
            context.set_alpn_protocols(list(self.alpn))
        return context


def load_certificate(context: ssl.SSLContext, certificate: Path, private_key: Path | None) -> None:
    """Have a context show a certificate; without a key its file has that as well. Raises TlsFilesRefused."""

    def pass_phrase() -> str:  # without it OpenSSL asks at the terminal, and everybody waits
        raise TlsFilesRefused(f"key {private_key or certificate}: it is encrypted; allowed: one without a pass phrase")

    files = f"certificate {certificate}" + (f" with key {private_key}" if private_key is not None else "")
    with reading(files, "a certificate and its own key, both in PEM"):
        context.load_cert_chain(certificate, private_key, pass_phrase)


@contextmanager
def reading(files: str, wanted: str) -> Iterator[None]:
    """Say what is wrong with files, in the operator's terms: OpenSSL names its own parts.

    Raises TlsFilesRefused.
    """
    try:
        yield
    except ssl.SSLError as error:
        why = f" ({error.reason})" if error.reason else ""
        raise TlsFilesRefused(f"{files}: this is not {wanted}{why}") from error
    except OSError as error:
        raise TlsFilesRefused(f"{files}: {error.strerror or error}") from error


def user_of(certificate: dict[str, Any] | None, certificate_user: CertificateUser) -> str | None:
    """Return the user name in what `SSLObject.getpeercert` gave, None when there is none."""
    wanted = _ALTERNATIVE_NAMES.get(certificate_user)
    if wanted is None:
        return _common_name(certificate)
    for kind, value in (certificate or {}).get("subjectAltName", ()):
        if kind == wanted:
            return str(value)
    return None


def _common_name(certificate: dict[str, Any] | None) -> str | None:
    for relative_name in (certificate or {}).get("subject", ()):
        for kind, value in relative_name:
            if kind == "commonName":
                return str(value)
    return None
