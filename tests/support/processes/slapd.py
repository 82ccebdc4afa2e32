"""OpenLDAP's slapd for a test: a directory with users and groups, over ldap with StartTLS and over ldaps."""

import asyncio
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from sluicegate.testing.ports import free_port
from support.mqtt.raw_client import DEADLINE_S
from support.network.certificates import Certificates
from support.processes.foreign_programs import program

SUFFIX: Final = "dc=example"
SERVICE: Final = f"cn=gateway,{SUFFIX}"
SERVICE_PASSWORD: Final = "service-secret"
MODULES: Final = Path("/usr/lib/ldap")
SCHEMAS: Final = Path("/etc/ldap/schema")

_CONFIGURATION: Final = """
include {schemas}/core.schema
include {schemas}/cosine.schema
include {schemas}/inetorgperson.schema
modulepath {modules}
moduleload back_mdb
moduleload retcode
pidfile {folder}/slapd.pid
{tls}
allow bind_anon_cred
database mdb
suffix "{suffix}"
rootdn "{service}"
rootpw {password}
directory {folder}/db
limits dn.exact="uid=limited,ou=people,{suffix}" size=2
access to attrs=userPassword by anonymous auth by * none
access to dn.exact="uid=Hidden,ou=people,{suffix}" by anonymous auth by * none
access to * by * read
overlay retcode
retcode-parent "ou=codes,{suffix}"
{codes}
"""

_TLS: Final = """
TLSCACertificateFile {authority}
TLSCertificateFile {certificate}
TLSCertificateKeyFile {key}
"""

RESULTS: Final = (3, 19, 48, 50, 51, 52, 53, 65, 80)  # codes; a bind as cn=CODE,ou=codes,dc=example has the result

_ENTRIES: Final = r"""
dn: dc=example
objectClass: domain
dc: example

dn: ou=people,dc=example
objectClass: organizationalUnit
ou: people

dn: uid=eve,ou=people,dc=example
objectClass: inetOrgPerson
uid: eve
cn: Eve
sn: Eve
userPassword: secret

dn: uid=a\2Cb(*),ou=people,dc=example
objectClass: inetOrgPerson
uid: a,b(*)
cn: Odd
sn: Odd
userPassword: secret

dn: uid=limited,ou=people,dc=example
objectClass: inetOrgPerson
uid: limited
cn: Limited
sn: Limited
userPassword: secret

dn: uid=Hidden,ou=people,dc=example
objectClass: inetOrgPerson
uid: Hidden
cn: Hidden
sn: Hidden
userPassword: secret

dn: cn=devices,dc=example
objectClass: groupOfNames
cn: devices
member: uid=eve,ou=people,dc=example

dn: cn=a\2C b,dc=example
objectClass: groupOfNames
cn: a, b
member: uid=a\2Cb(*),ou=people,dc=example
"""


class Slapd:
    """A directory that runs between start and stop. `allow bind_anon_cred`: it says yes to an empty password."""

    def __init__(self, folder: Path, certificates: Certificates | None) -> None:
        """Without certificates it has no TLS port, and refuses StartTLS."""
        self._folder = folder
        self._schemes = ("ldap",) if certificates is None else ("ldap", "ldaps")
        self._program = program("slapd")
        self.port, self.tls_port = free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "db").mkdir(parents=True)
        tls = ""
        if certificates is not None:
            files = {"authority": certificates.authority, "certificate": certificates.server}
            tls = _TLS.format(**files, key=certificates.server_key)
        configuration = _CONFIGURATION.format(
            schemas=SCHEMAS,
            modules=MODULES,
            folder=folder,
            tls=tls,
            suffix=SUFFIX,
            service=SERVICE,
            password=SERVICE_PASSWORD,
            codes="\n".join([f'retcode-item "cn={code}" {code:#x} op=bind' for code in RESULTS]),
        )
        (folder / "slapd.conf").write_text(configuration)
        (folder / "entries.ldif").write_text(_ENTRIES)
        made = [program("slapadd"), "-f", str(folder / "slapd.conf"), "-l", str(folder / "entries.ldif")]
        subprocess.run(made, check=True, capture_output=True)

    async def start(self) -> None:
        hosts = ("127.0.0.1", "127.0.0.2")  # the certificate is for the first
        ports = {"ldap": self.port, "ldaps": self.tls_port}
        urls = " ".join([f"{scheme}://{host}:{ports[scheme]}/" for host in hosts for scheme in self._schemes])
        command = [self._program, "-d", "stats", "-h", urls, "-f", str(self._folder / "slapd.conf")]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        async with asyncio.timeout(DEADLINE_S):
            while not await _answers(ports[self._schemes[-1]]):
                assert self._process.poll() is None, (self._folder / "log").read_text()
                await asyncio.sleep(0.02)

    def accepted_count(self) -> int:
        """Return how many connections the port without TLS has accepted."""
        return sum([" ACCEPT " in line and f":{self.port})" in line for line in self._log_lines()])

    def binds_count(self) -> int:
        """Return how many binds it was asked for."""
        return sum([" BIND " in line for line in self._log_lines()])

    def _log_lines(self) -> list[str]:
        return (self._folder / "log").read_text().splitlines()

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            process.wait(DEADLINE_S)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


async def _answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
