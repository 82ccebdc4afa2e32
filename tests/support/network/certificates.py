"""A certificate authority for one test run, and the server certificate that it signs."""

import datetime
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

CLIENT_NAMES = (
    x509.DNSName("device-7.plant.example"),
    x509.RFC822Name("device-7@plant.example"),
    x509.UniformResourceIdentifier("spiffe://plant.example/device-7"),
)
VALID = datetime.timedelta(days=1)


class Certificates(NamedTuple):
    """PEM files: what clients trust, what the server shows, and what one client shows, whose name is `device-7`."""

    authority: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path
    revocations: Path  # a list that has the client's certificate on it
    no_revocations: Path  # and one that is empty

    def in_tls(self, section: str) -> tuple[str, ...]:
        """Return the settings of a listener, by its section, that shows what the server shows."""
        values = {"enabled": "true", "port": 0, "certificate": self.server, "key": self.server_key}
        return tuple(f"{section}.{key}={value}" for key, value in values.items())


def make_certificates(folder: Path) -> Certificates:
    """Make all in a folder. The server's is for localhost and 127.0.0.1."""
    authority_key, server_key, client_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority for tests")])
    authority = (
        _certificate(authority_name, authority_name, authority_key.public_key(), authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    server_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))])
    server = (
        _certificate(server_name, authority_name, server_key.public_key(), authority_key.public_key())
        .add_extension(names, critical=False)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    client_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "device-7")])
    client = (
        _certificate(client_name, authority_name, client_key.public_key(), authority_key.public_key())
        .add_extension(x509.SubjectAlternativeName(CLIENT_NAMES), critical=False)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    names_of_files = (
        *("authority.pem", "server.pem", "server.key", "client.pem", "client.key"),
        *("revoked.pem", "none-revoked.pem"),
    )
    files = Certificates(*[folder / name for name in names_of_files])
    for file, certificate in ((files.authority, authority), (files.server, server), (files.client, client)):
        file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    for file, key in ((files.server_key, server_key), (files.client_key, client_key)):
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
    for file, serials in ((files.revocations, [client.serial_number]), (files.no_revocations, [])):
        made = _revocations(authority_name, serials).sign(authority_key, hashes.SHA256())
        file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return files


def _revocations(authority: x509.Name, serials: list[int]) -> x509.CertificateRevocationListBuilder:
    now = datetime.datetime.now(datetime.UTC)
    listed = x509.CertificateRevocationListBuilder().issuer_name(authority)
    listed = listed.last_update(now - VALID).next_update(now + VALID)
    for serial in serials:
        revoked = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now - VALID)
        listed = listed.add_revoked_certificate(revoked.build())
    return listed


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, issuer_key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    """Return a certificate to sign, with both key identifiers, which RFC 5280 requires and Python 3.13 looks for."""
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - VALID)
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
