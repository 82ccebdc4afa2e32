"""Who may do what: password files, ACL files, and `allow_anonymous`, of all listeners together.

Accounts and rights belong to a message VPN here, and to the broker or to each listener there. Where listeners differ in
them, those that differ from the first are switched off: nobody gets rights that mosquitto did not give.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from argon2 import extract_parameters

from sluicegate.gateway.importing.imported import Imported
from sluicegate.gateway.importing.mosquitto.conf import Block, Line, MosquittoConf, SourceFiles, read_text
from sluicegate.gateway.importing.mosquitto.listeners import kind_of, listener_setting
from sluicegate.gateway.importing.mosquitto.rights import AclFile, Rule, profile_of, read_acl
from sluicegate.gateway.importing.report import ImportFailed, Setting
from sluicegate.messaging.clients.roster import DEFAULT
from sluicegate.protocols.security.account_secrets import ARGON2_PREFIX
from sluicegate.protocols.security.password_hashes import check_foreign_hash

NAME_CHARS_MAX: Final = 255
PROFILE_CHARS_MAX: Final = 32
ON_LOOPBACK: Final = "on-loopback"
LOOPBACK: Final = ("127.0.0.1", "::1")
PLUGINS: Final = ("auth_plugin", "global_plugin", "plugin", "plugin_load", "plugin_use")
DENIES_NOTHING: Final = (
    "mosquitto and this broker take all words after `deny` as the topic, so the line denies nothing that is in use; "
    "write `deny TOPIC`, which denies reading and writing"
)
OF_ACCESS: Final = ("password_file", "acl_file", "allow_anonymous", "listener_allow_anonymous")


@dataclass(slots=True)
class _Access:
    """What a listener demands of its clients."""

    block: Block
    anonymous: bool
    password_file: Line | None
    acl_file: Line | None
    plugins: tuple[str, ...]  # what may be about rights, and is not here
    client_id_is_user: bool

    def accounts(self) -> str:
        """Return the file of its accounts; empty: it has none."""
        return self.password_file.value if self.password_file else ""

    def rights(self) -> tuple[object, ...]:
        """Return what its clients' rights depend on."""
        return (self.acl_file.value, self.plugins, self.client_id_is_user) if self.acl_file else (self.plugins,)


@dataclass(slots=True)
class _Profiles:
    """ACL profiles, one for all users with the same rules."""

    by_rules: dict[tuple[Rule, ...], str] = field(default_factory=dict)

    def name_for(self, wanted: str, rules: tuple[Rule, ...]) -> str:
        """Return the name of the profile of these rules: the one that is wanted, made short and different."""
        if rules not in self.by_rules:
            short, number = wanted[:PROFILE_CHARS_MAX], 1
            while short == DEFAULT or short in self.by_rules.values():  # that one is of clients without an account
                number += 1
                short = f"{wanted[: PROFILE_CHARS_MAX - 6]}-{number}"
            self.by_rules[rules] = short
        return self.by_rules[rules]


def take_access(conf: MosquittoConf, listeners: list[Block], files: SourceFiles, imported: Imported) -> None:
    """Take accounts and rights of the listeners that are here as well. Raises ImportFailed."""
    accesses = _accesses(conf, listeners, imported)
    first = accesses[0]
    kept = [first]
    for other in accesses[1:]:
        if other.rights() == first.rights() and (
            other.accounts() == first.accounts() or (not other.accounts() and other.anonymous)
        ):
            kept.append(other)
        elif other.rights() == first.rights() and not first.accounts() and first.anonymous:
            first = other  # the first one needs no accounts
            kept.append(other)
        else:
            _close(other, imported)
    for other in kept:
        for line in (other.password_file, other.acl_file):
            if line not in (None, first.password_file, first.acl_file):
                imported.report.taken(line, "the same as that of another listener")
    _take_anonymous(conf, kept, imported)
    acl = _read_acl(first, files, imported)
    names = _take_passwords(first, acl, conf, files, imported)
    if acl is not None:
        _take_rights(acl, names, imported)
    elif first.plugins:
        nothing, _ = profile_of(DEFAULT, (), "")
        imported.put("authentication.acl_profiles", [nothing])
        text = f"{', '.join(first.plugins)} may have rights that are not known: nobody may publish or subscribe, "
        imported.report.not_taken(Setting("", "rights of accounts"), text + "until you write ACL profiles")


def _accesses(conf: MosquittoConf, listeners: list[Block], imported: Imported) -> list[_Access]:
    setting = conf.general.get("per_listener_settings")
    is_per_listener = setting is not None and setting.flag()
    found: list[_Access] = []
    taken = imported.section("listeners")
    for block in listeners:
        options = block.options if is_per_listener else conf.general
        said = block.options.get("listener_allow_anonymous") or options.get("allow_anonymous")
        plugins = tuple(name for name in PLUGINS if name in options or name in conf.general)
        client_id_is_user = block.flag("use_username_as_clientid")
        anonymous = said.flag() if said else not conf.has_listeners
        anonymous = anonymous and not plugins and not client_id_is_user  # without a name such a client is refused
        if is_per_listener:
            _note_listener_options(block, imported)
        listener = taken.get(kind_of(block), {})
        if listener.get("enabled") or len(listeners) == 1:
            files = options.get("password_file"), options.get("acl_file")
            found.append(_Access(block, anonymous, *files, plugins, client_id_is_user))
        else:
            for name in OF_ACCESS:
                if line := block.options.get(name):
                    imported.report.not_taken(line, "of a listener that is written with enabled: false")
    return found or [_Access(conf.default, False, None, None, (), False)]


def _note_listener_options(block: Block, imported: Imported) -> None:
    for name in ("psk_file", *PLUGINS, "clientid_prefixes", "auto_id_prefix"):
        if line := block.options.get(name):
            imported.report.not_taken(line, "there is nothing like it")
    if line := block.options.get("allow_zero_length_clientid"):
        mqtt = imported.section("mqtt")
        mqtt["allow_zero_length_client_id"] = line.flag() and mqtt.get("allow_zero_length_client_id", True)
        imported.report.taken(line, "mqtt.allow_zero_length_client_id, for all listeners")


def _close(access: _Access, imported: Imported) -> None:
    name = kind_of(access.block)
    imported.section("listeners")[name]["enabled"] = False
    text = "it has other accounts or rights than the first listener, which here are the same for all listeners of a "
    text += f"message VPN; listeners.{name} is written with enabled: false"
    imported.report.not_taken(listener_setting(access.block), text)
    for option in OF_ACCESS:
        if line := access.block.options.get(option):
            imported.report.not_taken(line, text)


def _take_anonymous(conf: MosquittoConf, kept: list[_Access], imported: Imported) -> None:
    listeners = imported.section("listeners")
    said = {each.anonymous for each in kept}
    value: bool | str = said == {True}
    if len(said) == 2:
        sides: dict[bool, set[bool]] = {True: set(), False: set()}
        for each in kept:
            sides[listeners.get(kind_of(each.block), {}).get("host") in LOOPBACK].add(each.anonymous)
        if sides == {True: {True}, False: {False}}:
            value = ON_LOOPBACK
    imported.put("authentication.allow_anonymous", value)
    names = ("listener_allow_anonymous", "allow_anonymous")
    lines = [each.block.options.get(name) for each in kept for name in names] + [conf.general.get("allow_anonymous")]
    shown = str(value).lower()
    given: list[Setting] = [each for each in lines if each is not None]
    for line in given or [Setting("", "allow_anonymous, by default")]:
        imported.report.taken(line, f"authentication.allow_anonymous: {shown}")
        if isinstance(line, Line) and line.flag() and value is False:
            text = "another setting or listener demands accounts, so all do here, or a plug-in is not here"
            imported.report.not_taken(line, text)


def _read_acl(access: _Access, files: SourceFiles, imported: Imported) -> AclFile | None:
    if access.acl_file is None:
        return None
    text = read_text(files, access.acl_file.value, access.acl_file.where)
    acl = read_acl(access.acl_file.value, text, client_id_is_user=access.client_id_is_user)
    imported.report.taken(access.acl_file, "authentication.acl_profiles")
    imported.report.differs(
        access.acl_file,
        "a subscription is granted only if all topics that it matches may be read; mosquitto grants every one and "
        "delivers what may be read. A client that subscribes to more than it may read gets 0x87 (3.x: 0x80)",
    )
    return acl


def _take_passwords(
    access: _Access, acl: AclFile | None, conf: MosquittoConf, files: SourceFiles, imported: Imported
) -> list[str]:
    """Return the names of the accounts."""
    accounts: dict[str, str] = {}
    report = imported.report
    if access.password_file is not None:
        report.taken(access.password_file, "authentication.users, each with its hash in a file")
        for setting, name, secret in _passwords(access.password_file, files):
            problem = _hash_problem(name, secret)
            if problem:
                report.not_taken(setting, problem)
            else:
                accounts[name] = imported.secrets.add(name, secret)
                report.taken(setting, f"authentication.users: {name}")
                if not secret.startswith(ARGON2_PREFIX):
                    report.differs(setting, "clients cannot use SCRAM-SHA-256 with this hash; a new password can")
    by_certificate = [block for block in conf.listeners() if block.flag("use_identity_as_username")]
    for block in by_certificate:
        text = "a certificate's common name needs an account here: add an account for each common name"
        report.not_taken(block.options["use_identity_as_username"], text)
    if acl is not None and by_certificate:
        for name in acl.users:
            if name and name not in accounts:
                accounts[name] = imported.secrets.add_none(name)
                report.taken(Setting(acl.users[name].where, f"user {name}"), "an account for its certificate")
    if accounts:
        imported.put("authentication.users", [{"name": name, "password_file": file} for name, file in accounts.items()])
    return [*accounts]


def _passwords(line: Line, files: SourceFiles) -> Iterator[tuple[Setting, str, str]]:
    for number, raw in enumerate(read_text(files, line.value, line.where).split("\n"), 1):
        text = raw.rstrip("\r")
        if not text.strip() or text.startswith("#"):
            continue
        where = f"{line.value}:{number}"
        name, colon, secret = text.partition(":")
        if not colon or not name:
            raise ImportFailed(where, "this is no line of a password file; allowed: NAME:HASH")
        yield Setting(where, f"{name}:..."), name.strip(), secret.strip()


def _hash_problem(name: str, secret: str) -> str:
    """Return why an account cannot be taken; empty if it can."""
    if len(name) > NAME_CHARS_MAX:
        return f"a user name has at most {NAME_CHARS_MAX} characters"
    try:
        if secret.startswith(ARGON2_PREFIX):
            extract_parameters(secret)
        else:
            check_foreign_hash(secret)
    except ValueError as problem:
        return (
            f"its password is no hash that mosquitto takes ({problem}): run mosquitto_passwd -U, or add the user here"
        )
    return ""


def _take_rights(acl: AclFile, names: list[str], imported: Imported) -> None:
    profiles = _Profiles()
    sections: list[dict[str, object]] = []
    anonymous, notes = profile_of(DEFAULT, acl.rules_of(""), "")
    sections.append(anonymous)
    imported_users = {each["name"]: each for each in imported.section("authentication").get("users", ())}
    by_name: dict[str, dict[str, object]] = {}
    for name in names:
        rules = acl.rules_of(name)
        profile = profiles.name_for(name if name in acl.users else "patterns", rules)
        imported_users[name]["acl_profile"] = profile
        if profile not in by_name:
            by_name[profile], found = profile_of(profile, rules, name)
            notes += found
    imported.put("authentication.acl_profiles", [*sections, *by_name.values()])
    for part, rule, text in dict.fromkeys(notes):
        getattr(imported.report, part)(rule.setting, text)
    for name, setting in acl.users.items():
        if name and name not in names:
            imported.report.not_taken(setting, "there is no account of that name, so these rules are for nobody")
    for setting in acl.deny_with_access:
        imported.report.differs(setting, DENIES_NOTHING)
    for setting in acl.settings:
        if not imported.report.has(setting):
            imported.report.taken(setting, "in ACL profiles")
