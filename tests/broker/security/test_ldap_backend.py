"""A directory, OpenLDAP's slapd, that decides who may come in: by a template or a search, and by groups."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import TypeGuard

import pytest

import support.mqtt.packets as mqtt
from sluicegate.actors.runtime.clock import Clock
from sluicegate.gateway.config.document import ConfigError
from sluicegate.gateway.config.load import load
from sluicegate.gateway.operations.node import NodeOperations
from sluicegate.messaging.clients.rights import AUTHENTICATION_UNAVAILABLE
from sluicegate.protocols.security.backends.guarded_backend import FAILURES_MAX, Admission, BackendFailed, Login
from sluicegate.protocols.security.backends.ldap_backend import IDLE_MS_MAX, Directory, LdapBackend
from support.broker.protocol_clients import OK, PROTOCOLS
from support.broker.running_broker import RunningBroker
from support.cores.set_clock import SetClock
from support.network.certificates import Certificates, make_certificates
from support.processes.slapd import RESULTS, SERVICE, SERVICE_PASSWORD, SUFFIX, Slapd

RIGHT, WRONG, UNAVAILABLE = 0, 0x86, 0x88
LDAP = "authentication.ldap."
TEMPLATE = (f"{LDAP}user_dn=uid={{username}},ou=people,{SUFFIX}",)
STRICT = "authentication.acl_profiles=[{name: strict, publish_topic_exceptions: [{topic: 'data/>'}]}]"
DEVICES = "[{group: 'CN=devices, DC=example', acl_profile: strict}]"
GROUPS = (f"{LDAP}group_base={SUFFIX}", f"{LDAP}groups={DEVICES}", STRICT)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def by_search(folder: Path, password: str = SERVICE_PASSWORD) -> tuple[str, ...]:
    secret = folder / "service"
    secret.write_text(password)
    return (f"{LDAP}user_base={SUFFIX}", f"{LDAP}bind_dn={SERVICE}", f"{LDAP}bind_password_file={secret}")


@asynccontextmanager
async def asking(
    folder: Path, certificates: Certificates, *settings: str, scheme: str = "ldap", host: str = "127.0.0.1"
) -> AsyncIterator[tuple[RunningBroker, Slapd]]:
    async with Slapd(folder / "slapd", certificates) as slapd:
        port = slapd.port if scheme == "ldap" else slapd.tls_port
        url = f"{LDAP}url={scheme}://{host}:{port}"
        given = (url, "authentication.allow_anonymous=false", f"{LDAP}timeout_ms=10000", *settings)
        async with RunningBroker(folder / "data", given) as broker:
            yield broker, slapd


async def login(broker: RunningBroker, user: str = "eve", password: bytes = b"secret") -> int:
    raw = await broker.open(5)
    raw.send(mqtt.connect(f"device of {user[:20]}", level=5, user_name=user, password=password))
    return mqtt.connack(await raw.packet(), 5).reason_code


async def outcomes(broker: RunningBroker) -> dict[str, float]:
    samples = await NodeOperations(broker.node).metrics_snapshot()
    return {each.labels[0]: each.value for each in samples if each.name == "sluicegate_external_logins_total"}


@pytest.mark.parametrize("way", ["template", "search"])
async def test_the_right_password_of_an_entry_lets_its_user_in(
    tmp_path: Path, certificates: Certificates, way: str
) -> None:
    settings = TEMPLATE if way == "template" else by_search(tmp_path)
    async with asking(tmp_path, certificates, *settings) as (broker, _):
        assert await login(broker) == RIGHT
        assert await login(broker) == RIGHT
        assert await login(broker, password=b"other") == WRONG
        assert await login(broker, "nobody") == WRONG
        assert await outcomes(broker) == {"allowed": 1, "remembered": 1, "denied": 2}


@pytest.mark.parametrize("way", ["template", "search"])
async def test_an_empty_password_never_reaches_the_directory(
    tmp_path: Path, certificates: Certificates, way: str
) -> None:
    """RFC 4513, 5.1.2: a directory takes it for an unauthenticated bind. This one says yes to it."""
    settings = TEMPLATE if way == "template" else by_search(tmp_path)
    async with asking(tmp_path, certificates, *settings) as (broker, slapd):
        slapd.stop()
        assert await login(broker, password=b"") == WRONG
        assert await outcomes(broker) == {"denied": 1}


@pytest.mark.parametrize("way", ["template", "search"])
async def test_a_name_is_a_value_and_never_part_of_a_filter_or_of_another_name(
    tmp_path: Path, certificates: Certificates, way: str
) -> None:
    """RFC 4515, 3; RFC 4514, 2.4."""
    settings = TEMPLATE if way == "template" else by_search(tmp_path)
    async with asking(tmp_path, certificates, *settings) as (broker, _):
        assert await login(broker, "a,b(*)") == RIGHT
    for user in ("e*", "*", "eve)(uid=*", "eve,ou=people", "eve\\2a"):
        async with asking(tmp_path / user.encode().hex(), certificates, *settings) as (broker, _):
            assert await login(broker, user) == WRONG


@pytest.mark.parametrize("way", ["template", "search"])
async def test_a_user_has_the_profiles_of_the_first_group_that_fits(
    tmp_path: Path, certificates: Certificates, way: str
) -> None:
    settings = TEMPLATE if way == "template" else by_search(tmp_path)
    async with asking(tmp_path, certificates, *settings, *GROUPS) as (broker, _):
        client = await broker.connect("device", 5, user_name="eve", password=b"secret")
        assert broker.node.default.external.usernames["eve"].acl_profile == "strict"
        assert await login(broker, "a,b(*)") == WRONG  # it is in none of the groups
        await client.leave()


@pytest.mark.parametrize("group", ["cn=a\\, b,dc=example", "CN=A\\2C B, DC=example", "2.5.4.3=a"])
async def test_a_group_is_the_same_in_each_spelling_of_its_name(
    tmp_path: Path, certificates: Certificates, group: str
) -> None:
    """RFC 4514, 2.4: a comma in a value is escaped in one of two ways."""
    groups = (f"{LDAP}group_base={SUFFIX}", f"{LDAP}groups=[{{group: '{group}'}}]")
    async with asking(tmp_path, certificates, *TEMPLATE, *groups) as (broker, _):
        assert await login(broker, "a,b(*)") == (WRONG if group == "2.5.4.3=a" else RIGHT)


@pytest.mark.parametrize("way", ["template", "search"])
async def test_an_entry_lets_its_user_in_under_one_spelling_of_its_name(
    tmp_path: Path, certificates: Certificates, way: str
) -> None:
    """The directory itself ignores case and blanks. Limits and rights are those of a name."""
    settings = TEMPLATE if way == "template" else by_search(tmp_path)
    async with asking(tmp_path, certificates, *settings) as (broker, _):
        for user in ("EVE", "Eve", " eve", "eve ", "\N{FULLWIDTH LATIN SMALL LETTER E}ve"):
            assert await login(broker, user) == WRONG
        assert await login(broker) == RIGHT
        assert set(broker.node.default.external.usernames) == {"eve"}


async def test_an_entry_that_its_user_may_not_read_needs_a_service_account(
    tmp_path: Path, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    """Else it is not known how its name is spelled."""
    async with asking(tmp_path, certificates, *TEMPLATE) as (broker, _):
        assert await login(broker, "Hidden") == UNAVAILABLE
        assert "does not show the entry" in caplog.text
        assert await login(broker) == RIGHT
    secret = tmp_path / "service"
    secret.write_text(SERVICE_PASSWORD)
    service = (f"{LDAP}bind_dn={SERVICE}", f"{LDAP}bind_password_file={secret}")
    async with asking(tmp_path / "again", certificates, *TEMPLATE, *service) as (broker, _):
        assert await login(broker, "Hidden") == RIGHT


@pytest.mark.parametrize("way", ["ldaps", "StartTLS"])
@pytest.mark.parametrize("is_trusted", [True, False])
async def test_a_directory_is_asked_over_tls_if_its_certificate_is_trusted(
    tmp_path: Path, certificates: Certificates, way: str, is_trusted: bool
) -> None:
    ca = (f"{LDAP}ca_file={certificates.authority}",) if is_trusted else ()
    tls = (f"{LDAP}start_tls=true",) if way == "StartTLS" else ()
    scheme = "ldap" if way == "StartTLS" else "ldaps"
    async with asking(tmp_path, certificates, *TEMPLATE, *ca, *tls, scheme=scheme) as (broker, _):
        assert await login(broker) == (RIGHT if is_trusted else UNAVAILABLE)


@pytest.mark.parametrize("way", ["ldaps", "StartTLS"])
async def test_a_certificate_for_another_name_is_not_trusted(
    tmp_path: Path, certificates: Certificates, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    tls = (f"{LDAP}ca_file={certificates.authority}", *((f"{LDAP}start_tls=true",) if way == "StartTLS" else ()))
    scheme = "ldap" if way == "StartTLS" else "ldaps"
    async with asking(tmp_path, certificates, *TEMPLATE, *tls, scheme=scheme, host="127.0.0.2") as (broker, _):
        assert await login(broker) == UNAVAILABLE
        assert "127.0.0.2" in caplog.text


@asynccontextmanager
async def backend_of(slapd: Slapd, clock: Clock, *, start_tls: bool = False) -> AsyncIterator[LdapBackend]:
    """A backend alone, by a template."""
    directory = Directory(
        url=f"ldap://127.0.0.1:{slapd.port}",
        start_tls=start_tls,
        ca_file=None,
        user_dn=f"uid={{username}},ou=people,{SUFFIX}",
        bind_dn="",
        bind_password="",
        user_base="",
        user_filter="",
        group_base="",
        group_filter="",
        groups=(),
    )
    backend = LdapBackend(directory, timeout_ms=10_000, concurrent_max=1, clock=clock)
    yield backend
    await backend.close()


EVE = Login("eve", b"secret", "", "127.0.0.1", "mqtt")


async def test_a_connection_that_was_idle_for_a_minute_is_not_used_again(
    tmp_path: Path, certificates: Certificates
) -> None:
    clock = SetClock()
    async with Slapd(tmp_path / "slapd", certificates) as slapd, backend_of(slapd, clock) as backend:
        for passed_ms, accepted_count in ((0, 1), (IDLE_MS_MAX - 1, 1), (IDLE_MS_MAX - 1, 1), (IDLE_MS_MAX, 2)):
            clock.at_ms += passed_ms
            assert await backend.ask(EVE) == Admission()
            assert slapd.accepted_count() == accepted_count


def is_text(each: object) -> TypeGuard[bytes | str]:
    return isinstance(each, bytes | str)


def kept_by(root: object) -> Iterator[object]:
    """Yield what an object has, at any depth, by its attributes and in its collections."""
    seen: set[int] = set()
    left = [root]
    while left:
        each = left.pop()
        if id(each) in seen or isinstance(each, type | ModuleType):
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, Mapping):
            left += [*each.keys(), *each.values()]
        elif isinstance(each, list | tuple | set | frozenset):
            left += each
        elif not is_text(each):
            names = [*getattr(each, "__dict__", ()), *getattr(type(each), "__slots__", ())]
            left += [getattr(each, name) for name in names]


async def test_no_password_stays_behind_a_login(tmp_path: Path, certificates: Certificates) -> None:
    async with Slapd(tmp_path / "slapd", certificates) as slapd, backend_of(slapd, SetClock()) as backend:
        assert await backend.ask(EVE) == Admission()
        assert EVE.password in list(kept_by(EVE))
        texts = [each if isinstance(each, bytes) else each.encode() for each in kept_by(backend) if is_text(each)]
        assert len(texts) > 10
        assert [each for each in texts if EVE.password in each] == []


async def test_a_directory_that_refuses_starttls_gets_no_password(tmp_path: Path) -> None:
    async with Slapd(tmp_path / "slapd", None) as slapd, backend_of(slapd, SetClock(), start_tls=True) as backend:
        with pytest.raises(BackendFailed, match="startTLS failed"):
            await backend.ask(EVE)
        assert (slapd.accepted_count(), slapd.binds_count()) == (2, 0)  # the first one was that of its start


async def test_a_directory_that_is_away_lets_nobody_in_until_it_is_back(
    tmp_path: Path, certificates: Certificates
) -> None:
    async with asking(tmp_path, certificates, *TEMPLATE, f"{LDAP}cache_s=0") as (broker, slapd):
        assert await login(broker) == RIGHT
        slapd.stop()
        assert await login(broker) == UNAVAILABLE
        servers = {each.name: each for each in broker.node.servers}
        assert servers["mqtt"].counters.refused == {AUTHENTICATION_UNAVAILABLE: 1}
        await slapd.start()
        assert await login(broker) == RIGHT


async def test_a_wrong_password_of_the_service_account_is_no_answer(tmp_path: Path, certificates: Certificates) -> None:
    async with asking(tmp_path, certificates, *by_search(tmp_path, "wrong")) as (broker, _):
        assert await login(broker) == UNAVAILABLE


@pytest.mark.parametrize("way", ["template", "search"])
async def test_no_login_keeps_the_directory_from_those_of_others(
    tmp_path: Path, certificates: Certificates, way: str
) -> None:
    """RFC 4013, 2.3 prohibits some characters of a password: what is sent is what the client has sent."""
    settings = TEMPLATE if way == "template" else by_search(tmp_path)
    passwords = (b"\x01", "\xad".encode(), "\u0221".encode(), b"\xff", b"x" * 65_535)
    names = ("*" * 65_535, "*" * 1_024, "\ufdd0", "~=x")
    async with asking(tmp_path, certificates, *settings) as (broker, _):
        for number, password in enumerate(passwords):
            assert await login(broker, f"user-{number}", password) == WRONG
        for name in names:
            assert await login(broker, name) == WRONG
        assert await login(broker) == RIGHT
        assert not {"failed", "not_asked"} & set(await outcomes(broker))


@pytest.mark.parametrize("code", RESULTS)
async def test_a_bind_that_a_directory_does_not_allow_its_user_is_a_no(
    tmp_path: Path, certificates: Certificates, code: int
) -> None:
    """As unwillingToPerform (53) for an account that is locked. One that is busy (51) says neither yes nor no."""
    expected = UNAVAILABLE if code in (3, 51, 52, 80) else WRONG
    async with asking(tmp_path, certificates, f"{LDAP}user_dn=cn={{username}},ou=codes,{SUFFIX}") as (broker, _):
        assert await login(broker, str(code)) == expected


async def test_a_user_whose_groups_are_not_all_listed_holds_up_nobody_else(
    tmp_path: Path, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    groups = (f"{LDAP}group_filter=(|(member={{dn}})(objectClass=*))", f"{LDAP}groups=[{{}}]")
    async with asking(tmp_path, certificates, *TEMPLATE, f"{LDAP}group_base={SUFFIX}", *groups) as (broker, _):
        for _ in range(FAILURES_MAX):
            assert await login(broker, "limited") == UNAVAILABLE
        assert "there are too many" in caplog.text
        assert await login(broker) == RIGHT
        assert await outcomes(broker) == {"failed": FAILURES_MAX, "allowed": 1}


async def test_many_logins_at_once_share_a_few_connections(tmp_path: Path, certificates: Certificates) -> None:
    """Each begins with a bind of its own: no login has the identity or the groups of another."""
    groups = "[{group: 'cn=devices,dc=example', acl_profile: strict}, {group: 'cn=a\\, b,dc=example'}]"
    settings = (
        *by_search(tmp_path),
        *(f"{LDAP}max_concurrent_requests=2", f"{LDAP}cache_s=0"),
        *(f"{LDAP}group_base={SUFFIX}", f"{LDAP}groups={groups}", STRICT),
    )
    async with asking(tmp_path, certificates, *settings) as (broker, _):
        assert await asyncio.gather(*[login(broker, user) for user in ("eve", "a,b(*)")]) == [RIGHT] * 2
        logins = [
            each
            for number in range(5)
            for each in (login(broker), login(broker, f"nobody-{number}"), login(broker, "a,b(*)"))
        ]
        assert await asyncio.gather(*logins) == [RIGHT, WRONG, RIGHT] * 5
        profiles = {name: each.acl_profile for name, each in broker.node.default.external.usernames.items()}
        assert profiles == {"eve": "strict", "a,b(*)": "default"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_every_protocol_asks(tmp_path: Path, certificates: Certificates, protocol: str) -> None:
    async with asking(tmp_path, certificates, *TEMPLATE) as (broker, _):
        client = PROTOCOLS[protocol](broker)
        assert await client.connect("eve", "secret") == OK
        await client.leave()


def test_a_configuration_that_cannot_work_is_refused(tmp_path: Path) -> None:
    url = f"{LDAP}url=ldaps://directory.example"
    for settings, reason in (
        *[
            ((f"{LDAP}url={wrong}", *TEMPLATE), "ldaps://HOST")
            for wrong in (
                *("http://x", "ldaps://x:99999", "ldaps://x:abc", "ldaps://x:0", "ldaps://x:", "ldaps://[::1"),
                *("ldaps://user@x", "ldaps://x?uid", "ldaps://x#y", "ldaps://[fe80::1%eth0]", "ldaps://x/dc=example"),
            )
        ],
        ((f"{LDAP}url=ldap://directory.example", *TEMPLATE), "needs start_tls"),
        ((url, *TEMPLATE, f"{LDAP}start_tls=true"), "start_tls is for ldap URLs"),
        ((url,), "one of user_dn and user_base"),
        ((url, f"{LDAP}user_dn=uid=x"), "username"),
        ((url, f"{LDAP}user_dn='{{username}}@example.com'"), "not the name"),
        ((url, f"{LDAP}user_dn='{{username}}=x,dc=example'"), "user_dn"),
        ((url, f"{LDAP}user_base=people"), "user_base: 'people' is not the name"),
        ((url, f"{LDAP}user_base={SUFFIX}", f"{LDAP}user_filter=(uid={{username}}"), "is no filter"),
        ((url, f"{LDAP}user_base={SUFFIX}", f"{LDAP}user_filter=(uid={{username}}*)"), "compared with an attribute"),
        ((url, *TEMPLATE, f"{LDAP}group_base={SUFFIX}", f"{LDAP}group_filter=member={{dn}}"), "is no filter"),
        ((url, *TEMPLATE, f"{LDAP}group_base={SUFFIX}"), "groups is missing"),
        ((url, *TEMPLATE, f"{LDAP}group_filter=(memberUid={{username}})"), "groups is missing"),
        ((url, *TEMPLATE, f"{LDAP}group_base={SUFFIX}", f"{LDAP}groups=[{{group: devices}}]"), "'devices' is not"),
        ((url, f"{LDAP}user_base={SUFFIX}", f"{LDAP}user_filter=(uid=x)"), "username"),
        ((url, *TEMPLATE, f"{LDAP}group_base={SUFFIX}", f"{LDAP}group_filter=(cn=x)"), "group_filter"),
        ((url, *TEMPLATE, f"{LDAP}groups=[{{group: cn=x}}]"), "group_base is missing"),
        ((url, *TEMPLATE, f"{LDAP}bind_dn=cn=x"), "given together"),
        ((url, *TEMPLATE, f"{LDAP}ca_file={tmp_path}/absent"), "ca_file"),
        ((url, *TEMPLATE, "authentication.http.url=https://x/"), "one of http.url and ldap.url"),
    ):
        with pytest.raises(ConfigError, match=reason):
            load(settings=settings)
