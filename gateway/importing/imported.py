"""What an import makes: a configuration, files with secrets, and the report. And the texts of these files."""

import re
from dataclasses import dataclass, field
from typing import Any, Final, final

import yaml

from sluicegate.gateway.importing.report import Report
from sluicegate.protocols.security.account_secrets import decoy_of, standard_kind

PASSWORDS: Final = "passwords"  # the folder of the secrets, beside the configuration
NO_PASSWORD: Final = "its password is not in the source, so nobody can log in: put it, or its hash, into {file}"


@final
@dataclass(slots=True)
class SecretFiles:
    """Files with a secret in their first line, by their names below the folder of the configuration."""

    folder: str  # of the configuration, as the configuration is to name it
    lines: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, secret: str) -> str:
        """Keep a secret; return the path of its file. Names are made fit for files, and different from each other."""
        plain = re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".")[:100] or "_"
        file, number = f"{PASSWORDS}/{plain}", 1
        while file in self.lines:
            number += 1
            file = f"{PASSWORDS}/{plain}-{number}"
        self.lines[file] = secret
        return f"{self.folder}/{file}"

    def add_none(self, name: str) -> str:
        """Keep a hash that no password has, for an account whose password is not known; return its path."""
        return self.add(name, decoy_of(standard_kind()))


@final
@dataclass(slots=True)
class Imported:
    """A configuration as `sluicegate.yaml` has it, with the secrets that it names, and the report."""

    configuration: dict[str, Any]
    secrets: SecretFiles
    report: Report

    def put(self, path: str, value: object) -> None:
        """Set one value of the configuration, given with dots."""
        *sections, last = path.split(".")
        node = self.configuration
        for section in sections:
            node = node.setdefault(section, {})
        node[last] = value

    def section(self, path: str) -> dict[str, Any]:
        """Return a section of the configuration, created where it is missing; empty path: the whole."""
        node = self.configuration
        for section in path.split(".") if path else ():
            node = node.setdefault(section, {})
        return node

    def yaml_text(self, source: str) -> str:
        """Return the text of `sluicegate.yaml`."""
        head = f"# Written by `sluicegate import` from {source}. report.txt says what differs from there.\n"
        return head + yaml.safe_dump(
            self.configuration, sort_keys=False, default_flow_style=None, width=110, allow_unicode=True
        )
