"""An LDAP directory that decides about clients without an account here, and the profiles of its groups."""

import importlib.util
import ssl
from pathlib import Path
from typing import Self
from urllib.parse import SplitResult, urlsplit

from pydantic import Field, model_validator

from sluicegate.gateway.config.sections.listeners import is_loopback
from sluicegate.gateway.config.sections.section import Section
from sluicegate.gateway.config.sections.security.secret_files import first_line
from sluicegate.protocols.security.backends import distinguished_names
from sluicegate.protocols.security.backends.ldap_filters import ENTRY, USER, filled, naming_attributes


class LdapGroup(Section):
    """The profiles of the members of a group."""

    group: str = Field(default="", max_length=2048, description="name (DN) of the group; empty: every user")
    client_profile: str = Field(default="", max_length=32, description="one of `client_profiles`; empty: `default`")
    acl_profile: str = Field(default="", max_length=32, description="one of `acl_profiles`; empty: `default`")


class LdapDirectory(Section):
    """A directory that is asked about each login of a name that is no account here. Off without a URL."""

    url: str | None = Field(default=None, max_length=2048, description="ldaps or ldap URL of the directory")
    start_tls: bool = Field(default=False, description="encrypt an ldap connection with StartTLS")
    ca_file: Path | None = Field(
        default=None, description="authorities that its certificate may be from, in PEM; none: the system's"
    )
    user_dn: str = Field(default="", max_length=2048, description="name of a user's entry, with {username}")
    bind_dn: str = Field(default="", max_length=2048, description="service account for searches; empty: anonymous")
    bind_password_file: Path | None = Field(default=None, description="file whose first line is its password")
    user_base: str = Field(default="", max_length=2048, description="where users are searched for, without `user_dn`")
    user_filter: str = Field(default="(uid={username})", max_length=2048, description="which entry is the user's")
    group_base: str = Field(default="", max_length=2048, description="where groups are searched for; empty: nowhere")
    group_filter: str = Field(default="(member={dn})", max_length=2048, description="which groups the user is in")
    groups: tuple[LdapGroup, ...] = Field(
        default=(), description="profiles by group, of which the first that fits holds; empty: all users have `default`"
    )
    timeout_ms: int = Field(default=2_000, ge=10, le=60_000, description="milliseconds until it has to answer")
    max_concurrent_requests: int = Field(
        default=8, ge=1, le=100, description="logins under way, each with a connection; further ones wait"
    )
    cache_s: int = Field(
        default=60, ge=0, le=86_400, description="seconds for which a yes holds for the same login; 0: ask each time"
    )

    @model_validator(mode="after")
    def _check_directory(self) -> Self:
        if self.url is None:
            return self
        if importlib.util.find_spec("ldap3") is None:
            raise ValueError("url: the package ldap3 is missing: pip install 'sluicegate[ldap]'")
        parts = _checked_url(self.url)
        if parts.scheme == "ldaps" and self.start_tls:
            raise ValueError("start_tls is for ldap URLs: with ldaps all is encrypted")
        if parts.scheme == "ldap" and not self.start_tls and not is_loopback(parts.hostname or ""):
            raise ValueError("url: passwords are sent, so ldap to another machine needs start_tls; else use ldaps")
        self._check_names()
        self._check_filters()
        self._check_files()
        return self

    def _check_names(self) -> None:
        if bool(self.user_dn) == bool(self.user_base):
            raise ValueError("set one of user_dn and user_base")
        if self.user_dn:
            if USER not in self.user_dn:
                raise ValueError(f"user_dn: {USER} is missing")
            named = _values("user_dn", self.user_dn)
            if sum(value.count(USER) for value in named) != self.user_dn.count(USER):
                raise ValueError(f"user_dn: {USER} stands for a value, as in uid={USER},dc=example")
        for setting in ("user_base", "group_base"):
            if getattr(self, setting):
                _values(setting, getattr(self, setting))
        for each in self.groups:
            if each.group:
                _values("groups", each.group)
        if bool(self.bind_dn) != (self.bind_password_file is not None):
            raise ValueError("bind_dn and bind_password_file are given together")

    def _check_filters(self) -> None:
        if self.user_base:
            if USER not in self.user_filter:
                raise ValueError(f"user_filter: {USER} is missing")
            _check_filter("user_filter", self.user_filter)
            if not naming_attributes(self.user_filter):
                raise ValueError(f"user_filter: {USER} has to be compared with an attribute, as in (uid={USER})")
        if self.group_base:
            if not any(part in self.group_filter for part in (USER, ENTRY)):
                raise ValueError(f"group_filter: {ENTRY} or {USER} is missing")
            _check_filter("group_filter", self.group_filter)
        if not self.group_base and any(each.group for each in self.groups):
            raise ValueError("groups: group_base is missing")
        if not self.groups and (self.group_base or "group_filter" in self.model_fields_set):
            raise ValueError("groups is missing: without it, users in none of the groups would be let in")

    def _check_files(self) -> None:
        try:
            secret = self.secret()
        except OSError as problem:
            raise ValueError(f"bind_password_file {str(self.bind_password_file)!r}: {problem.strerror}") from None
        if self.bind_dn and not secret:
            raise ValueError("bind_password_file: the password is empty")
        if self.ca_file is not None:
            try:
                ssl.create_default_context(cafile=self.ca_file)
            except OSError as problem:  # ssl.SSLError is one
                raise ValueError(f"ca_file {str(self.ca_file)!r}: {problem}") from None

    def secret(self) -> str:
        """Return the password of the service account, read from its file. Raises OSError and ValueError."""
        return "" if self.bind_password_file is None else first_line(self.bind_password_file)


def _checked_url(url: str) -> SplitResult:
    allowed = "url: allowed is ldaps://HOST or ldap://HOST, with or without a port"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(allowed) from None
    is_plain = url.isprintable() and not set(url) & set(" @?#%") and not parts.netloc.endswith(":")
    if (
        parts.scheme not in ("ldap", "ldaps")
        or not parts.hostname
        or parts.path.strip("/")
        or port == 0
        or not is_plain
    ):
        raise ValueError(allowed)
    return parts


def _values(setting: str, dn: str) -> list[str]:
    try:
        return distinguished_names.values(dn)
    except ValueError as problem:
        raise ValueError(f"{setting}: {problem}") from None


def _check_filter(setting: str, pattern: str) -> None:
    from ldap3.core.exceptions import LDAPInvalidFilterError  # late: an extra, [ldap]
    from ldap3.operation.search import parse_filter

    try:
        # It has no types.
        parse_filter(filled(pattern, "name", "cn=name"), None, True, True, None, False)  # type: ignore[no-untyped-call]
    except LDAPInvalidFilterError as problem:
        raise ValueError(f"{setting}: {pattern!r} is no filter (RFC 4515): {problem}") from None
