"""A listener that records what its streams report, and clients that connect to it, plain or in TLS."""

import asyncio
import contextlib
import datetime
import ssl
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sluicegate.protocols.transport.listeners import Listener
from sluicegate.protocols.transport.tls.context import ClientCertificates, TlsFiles
from support.network.recorded_connection import RecordedConnection, Recorder


def listens(recorder: Recorder, **options: Any) -> Listener:
    return Listener(name="test", host="127.0.0.1", port=0, connect=recorder.connect, **options)


async def dials(listener: Listener, **options: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", listener.port, **options)


async def meets(
    files: TlsFiles | None = None,
) -> tuple[Listener, asyncio.StreamReader, asyncio.StreamWriter, RecordedConnection]:
    """Start a listener, in TLS if it has files, and dial it; return it, both halves of the client, and the server's."""
    recorder = Recorder()
    listener = listens(recorder, tls=files)
    await listener.start()
    tls = {} if files is None else {"ssl": trusts(files), "server_hostname": "localhost"}
    reader, writer = await dials(listener, **tls)
    return listener, reader, writer, await recorder.next_opened()


async def leaves(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):  # the listener's side may have gone first
        await writer.wait_closed()


def writes_certificate(
    folder: Path, name: str, *, client_certificates: ClientCertificates = ClientCertificates.OPTIONAL
) -> TlsFiles:
    """Write a certificate that signs itself, for localhost, and as a client's as well."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    written = TlsFiles(
        certificate=folder / f"{name}.pem",
        private_key=folder / f"{name}.key",
        client_authorities=folder / f"{name}.pem",
        client_certificates=client_certificates,
        alpn=("mqtt",),
    )
    written.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    written.private_key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return written


def trusts(files: TlsFiles, *, alpn: list[str] | None = None, shows_certificate: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files.certificate)
    if alpn:
        context.set_alpn_protocols(alpn)
    if shows_certificate:
        context.load_cert_chain(files.certificate, files.private_key)
    return context
