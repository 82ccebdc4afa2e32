"""Read mosquitto.conf: lines of a name and a value, and what each belongs to: the broker, a listener or a bridge.

As mosquitto 2.0 reads it: options before the first `listener` that are of listeners are of the default listener; behind
`connection` those of bridges are of that bridge; all others may stand anywhere.
"""

import errno
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Final, Protocol, final

from sluicegate.gateway.importing.mosquitto.volumes import PATHS, Volume, path_here
from sluicegate.gateway.importing.report import ImportFailed, Setting, is_secret

INCLUDES_MAX: Final = 100  # files
LINES_MAX: Final = 200_000
REPEATED: Final = ("log_type", "log_dest")  # each line of these counts
PLUGIN_OPTIONS: Final = ("auth_opt_", "plugin_opt_")  # names of options begin so, whose values may be secrets
_NAME: Final = re.compile(r"[a-z_][a-z0-9_.-]*", re.IGNORECASE)

SECURITY: Final = frozenset(  # of a listener where per_listener_settings is true, otherwise of all
    {
        "acl_file", "allow_anonymous", "allow_zero_length_clientid", "auth_plugin", "auto_id_prefix",
        "clientid_prefixes", "password_file", "plugin", "plugin_use", "psk_file",
    }
)  # fmt: skip
OF_LISTENERS: Final = frozenset(
    {
        "accept_protocol_versions", "bind_address", "bind_interface", "cafile", "capath", "certfile", "ciphers",
        "ciphers_tls1.3", "crlfile", "dhparamfile", "enable_proxy_protocol", "http_dir", "keyfile",
        "listener_allow_anonymous", "max_connections", "max_qos", "max_topic_alias", "max_topic_alias_broker",
        "mount_point", "port", "protocol", "psk_hint", "require_certificate", "socket_domain", "tls_engine",
        "tls_engine_kpass_sha1", "tls_keyform", "tls_version", "use_identity_as_username",
        "use_subject_as_username", "use_username_as_clientid", "websockets_origin",
    }
)  # fmt: skip
OF_BRIDGES: Final = frozenset(
    {
        "address", "addresses", "cleansession", "clientid", "idle_timeout", "keepalive_interval", "local_cleansession",
        "local_clientid", "local_password", "local_username", "notification_topic", "notifications",
        "notifications_local_only", "password", "remote_clientid", "remote_password", "remote_username",
        "restart_timeout", "round_robin", "start_type", "threshold", "topic", "try_private", "username",
    }
)  # fmt: skip


class SourceFiles(Protocol):
    """The files of the source, by the paths that it names."""

    def text(self, path: str) -> str:
        """Return the text of a file. Raises OSError; ValueError if it is no text."""

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder. Raises OSError."""


@dataclass(frozen=True, slots=True)
class Line(Setting):
    """A line of mosquitto.conf."""

    name: str
    value: str

    def flag(self) -> bool:
        """Return the value as true or false. Raises ImportFailed."""
        if self.value.lower() not in ("true", "1", "false", "0"):
            raise ImportFailed(self.where, f"{self.name} {self.value!r} is not allowed; allowed: true, false")
        return self.value.lower() in ("true", "1")

    def number(self, lowest: int = 0, highest: int = (1 << 63) - 1) -> int:
        """Return the value as a number. Raises ImportFailed."""
        if not re.fullmatch(r"-?[0-9]{1,19}", self.value) or not lowest <= int(self.value) <= highest:
            allowed = f"{lowest} to {highest}"
            raise ImportFailed(self.where, f"{self.name} {self.value!r} is not allowed; allowed: a number, {allowed}")
        return int(self.value)


@dataclass(slots=True)
class Block:
    """A listener or a bridge: the line that begins it, and its options."""

    start: Line | None  # None: the default listener
    options: dict[str, Line] = field(default_factory=dict)
    topics: list[Line] = field(default_factory=list)  # of a bridge

    def value(self, name: str, default: str = "") -> str:
        """Return the value of an option."""
        found = self.options.get(name)
        return default if found is None else found.value

    def flag(self, name: str) -> bool:
        """Return an option that is true or false, and false without it."""
        found = self.options.get(name)
        return found is not None and found.flag()


@final
@dataclass(slots=True)
class MosquittoConf:
    """The lines of a configuration."""

    lines: list[Line] = field(default_factory=list)  # all of them
    general: dict[str, Line] = field(default_factory=dict)
    plugin_options: list[Line] = field(default_factory=list)
    default: Block = field(default_factory=lambda: Block(None))
    extra: list[Block] = field(default_factory=list)
    bridges: list[Block] = field(default_factory=list)
    repeated: list[tuple[Line, Line]] = field(default_factory=list)  # a line that a later one replaces

    @property
    def has_listeners(self) -> bool:
        """Whether the configuration has any listener; otherwise there is one for this machine only."""
        return bool(self.extra) or bool({"port", "bind_address"} & {*self.default.options})

    def listeners(self) -> list[Block]:
        """Return the listeners that are opened."""
        has_default = not self.extra or {"port", "bind_address"} & {*self.default.options}
        return [*([self.default] if has_default else ()), *self.extra]


@final
class _Reader:
    def __init__(self, files: SourceFiles, volumes: Sequence[Volume]) -> None:
        self.conf = MosquittoConf()
        self._files = files
        self._volumes = volumes
        self._file_count = 0
        self._listener = self.conf.default
        self._bridge: Block | None = None
        self._per_listener = False

    def read(self, path: str, named_by: Line | None) -> None:
        self._file_count += 1
        if self._file_count > INCLUDES_MAX:
            raise ImportFailed(path, f"more than {INCLUDES_MAX} files are included")
        text = read_text(self._files, path, "" if named_by is None else named_by.where)
        for number, raw in enumerate(text.split("\n"), 1):
            stripped = raw.strip()
            if stripped and not stripped.startswith("#"):
                line = _line(f"{path}:{number}", stripped)
                if line.name in PATHS:
                    line = replace(line, value=path_here(line.value, self._volumes))
                self._take(line)

    def _take(self, line: Line) -> None:
        self.conf.lines.append(line)
        if len(self.conf.lines) > LINES_MAX:
            raise ImportFailed(line.where, f"the configuration has more than {LINES_MAX} settings")
        if line.name == "include_dir":
            self._include(line)
        elif line.name == "per_listener_settings":
            self._per_listener = line.flag()
            self._put(self.conf.general, line)
        elif line.name == "listener":
            self._listener, self._bridge = Block(line), None
            self.conf.extra.append(self._listener)
        elif line.name == "connection":
            if not line.value:
                raise ImportFailed(line.where, "connection has no name; allowed: connection NAME")
            self._bridge = Block(line)
            self.conf.bridges.append(self._bridge)
        elif line.name in OF_BRIDGES or line.name.startswith("bridge_"):
            self._take_of_bridge(line)
        elif line.name in ("port", "bind_address"):
            self._put(self.conf.default.options, line)
        elif line.name in OF_LISTENERS:
            self._put(self._listener.options, line)
        elif line.name.startswith(("auth_opt_", "plugin_opt_", "auth_plugin_")):
            self.conf.plugin_options.append(line)
        elif line.name in SECURITY and self._per_listener:
            self._put(self._listener.options, line)
        else:
            self._put(self.conf.general, line)

    def _take_of_bridge(self, line: Line) -> None:
        if self._bridge is None:
            raise ImportFailed(line.where, f"{line.name} stands before any bridge; allowed: behind `connection NAME`")
        if line.name == "topic":
            self._bridge.topics.append(line)
        else:
            self._put(self._bridge.options, line)

    def _put(self, options: dict[str, Line], line: Line) -> None:
        if line.name in options and line.name not in REPEATED:
            self.conf.repeated.append((options[line.name], line))
        options[line.name] = line

    def _include(self, line: Line) -> None:
        try:
            names = self._files.names(line.value)
        except OSError as problem:
            reason = f"include_dir {line.value!r}: {problem.strerror}{_advice(problem)}"
            raise ImportFailed(line.where, reason) from None
        key: Callable[[str], str] = str.lower  # as mosquitto orders them
        for name in sorted(names, key=key):
            if name.endswith(".conf"):
                self.read(str(PurePath(line.value) / name), line)


def read_conf(path: str, files: SourceFiles, volumes: Sequence[Volume] = ()) -> MosquittoConf:
    """Read a configuration with the folders that it includes, which may be in volumes. Raises ImportFailed."""
    reader = _Reader(files, volumes)
    reader.read(path, None)
    return reader.conf


def read_text(files: SourceFiles, path: str, where: str) -> str:
    """Return the text of a file that `where` names. Raises ImportFailed."""
    place, file = (where, f"the file {path!r}") if where else (path, "the file")
    try:
        return files.text(path)
    except OSError as problem:
        advice = _advice(problem) if where else ""
        raise ImportFailed(place, f"{file} cannot be read: {problem.strerror}{advice}") from None
    except ValueError as problem:
        raise ImportFailed(place, f"{file} cannot be read: {problem}") from None


def _advice(problem: OSError) -> str:
    """Return what to do about a file that the configuration names and that cannot be read."""
    if problem.errno != errno.ENOENT:
        return ""
    return ". If that is its path in a container, say where it is here: --volume ./config:/mosquitto/config"


def _line(where: str, text: str) -> Line:
    name, _, value = text.partition(" ") if " " in text else text.partition("\t")
    if not _NAME.fullmatch(name):
        raise ImportFailed(where, f"{text[:60]!r} is no setting of mosquitto.conf; allowed: NAME VALUE")
    is_name = name.endswith("_file") or name == "psk_hint"
    is_hidden = name.startswith(PLUGIN_OPTIONS) or (is_secret(name) and not is_name)
    shown = f"{name} ..." if is_hidden else text
    return Line(where, shown, name, value.strip())
