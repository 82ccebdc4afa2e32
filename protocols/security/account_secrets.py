"""The secrets of accounts, and what it costs to check a password against them.

The answer to a wrong password takes as long as its check. So that this reveals nothing about a name, all names of one
set of accounts cost the same: a check of each kind that any of the accounts has. An account's own hash takes the place
of the decoy of its kind; a name without an account, or one with a plain password, is checked against decoys only.
"""

import base64
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Final, final

from argon2 import DEFAULT_HASH_LENGTH, DEFAULT_RANDOM_SALT_LENGTH, PasswordHasher, extract_parameters

from sluicegate.protocols.security.password_hashes import foreign_decoy_of, foreign_kind_of, is_foreign_hash

ARGON2_PREFIX: Final = "$argon2"
PLAIN: Final = ""  # the kind of a password that is kept as it is
SCRAM_KEY_BYTES: Final = {"SCRAM-SHA-256": 32, "SCRAM-SHA-512": 64}  # by the mechanism's name


def kind_of(secret: str) -> str:
    """Return how a secret is checked: algorithm and parameters, as they stand before its salt."""
    if secret.startswith(ARGON2_PREFIX):
        return secret.rsplit("$", 2)[0]
    if scram_of(secret):
        return secret.partition(":")[0]
    return foreign_kind_of(secret) if is_foreign_hash(secret) else PLAIN


def scram_of(secret: str) -> str:
    """Return the mechanism of SCRAM in whose stored form a secret is, by its name before a `$`; empty: in none."""
    name, mark, _ = secret.partition("$")
    return name if mark and name in SCRAM_KEY_BYTES else ""


def is_hash(secret: str) -> bool:
    """Return whether a secret is a hash, which neither SCRAM can use nor a reader of it as a password."""
    return secret.startswith(ARGON2_PREFIX) or is_foreign_hash(secret)


def standard_kind() -> str:
    """Return the kind of hashes that are made now."""
    hasher = PasswordHasher()
    return f"{ARGON2_PREFIX}id$v=19$m={hasher.memory_cost},t={hasher.time_cost},p={hasher.parallelism}"


def decoy_of(kind: str) -> str:
    """Return a secret of a kind that no password matches.

    It is put together and not computed: a real hash would be a fifth of the time that a node takes to start.
    """
    salt = _zeros(DEFAULT_RANDOM_SALT_LENGTH)
    if kind.startswith(ARGON2_PREFIX):
        return f"{kind}${salt.rstrip('=')}${_zeros(DEFAULT_HASH_LENGTH).rstrip('=')}"
    scram = scram_of(kind)
    if not scram:
        return foreign_decoy_of(kind)
    key = _zeros(SCRAM_KEY_BYTES[scram])
    return f"{kind}:{salt}${key}:{key}"


@dataclass(frozen=True, slots=True)
class CheckCost:
    """What one check of a password takes while it runs."""

    memory_bytes: int
    threads_count: int


@dataclass(frozen=True, slots=True)
class Checks:
    """What every name of a set of accounts is held against."""

    decoys: Mapping[str, str]  # by their kinds
    cost: CheckCost  # they follow one another


@final
class AccountSecrets(Mapping[str, str]):
    """Hashes, stored SCRAM secrets and plain passwords, by the names of their accounts."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._secrets = dict(secrets)
        self._kinds = Counter(kind_of(secret) for secret in self._secrets.values())
        self._domains = Counter(domain_of(name) for name in self._secrets)
        self._checks: Checks | None = None

    def __getitem__(self, name: str) -> str:
        return self._secrets[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._secrets)

    def __len__(self) -> int:
        return len(self._secrets)

    def put(self, name: str, secret: str) -> None:
        """Have an account, or another secret of it."""
        self.drop(name)
        self._secrets[name] = secret
        self._kinds[kind_of(secret)] += 1
        self._domains[domain_of(name)] += 1
        self._checks = None

    def drop(self, name: str) -> None:
        """Have no such account."""
        secret = self._secrets.pop(name, None)
        if secret is not None:
            kind = kind_of(secret)
            self._kinds[kind] -= 1
            if not self._kinds[kind]:
                del self._kinds[kind]
            self._domains[domain_of(name)] -= 1
            self._checks = None

    def has_domain(self, name: str) -> bool:
        """Return whether an account's name ends like this one, in the same `@domain`."""
        domain = domain_of(name)
        return domain != "" and self._domains[domain] > 0

    def kinds_beside(self, name: str) -> Set[str]:
        """Return the kinds of hashes that the accounts of other names have."""
        secret = self._secrets.get(name, PLAIN)
        only = {PLAIN} if self._kinds[kind_of(secret)] > 1 else {PLAIN, kind_of(secret)}
        return self._kinds.keys() - only

    def checks(self) -> Checks:
        """Return what every name is held against: never nothing."""
        if self._checks is None:
            kinds = sorted(self._kinds.keys() - {PLAIN})
            decoys = {kind: decoy_of(kind) for kind in kinds or [standard_kind()]}
            self._checks = Checks(decoys, cost_of(*decoys.values()))
        return self._checks


def domain_of(name: str) -> str:
    """Return what stands behind the last `@` of a name; empty: it has none."""
    return name.rpartition("@")[2] if "@" in name else ""


def cost_of(*secrets: str) -> CheckCost:
    """Return what checks against these secrets take, one after the other."""
    memory_bytes, threads_count = 0, 1
    for secret in secrets:
        if secret.startswith(ARGON2_PREFIX):
            parameters = extract_parameters(secret)
            memory_bytes = max(memory_bytes, parameters.memory_cost * 1024)
            threads_count = max(threads_count, parameters.parallelism)
    return CheckCost(memory_bytes, threads_count)


def check_us(kind: str) -> int:
    """Return about how many microseconds of a processor a check of this kind takes.

    A KiB of argon2 in each pass, or an iteration of PBKDF2, is about one.
    """
    if kind.startswith(ARGON2_PREFIX):
        parameters = extract_parameters(decoy_of(kind))
        return parameters.memory_cost * parameters.time_cost
    iterations = kind.rpartition("$")[2]
    return int(iterations) if iterations.isdecimal() and kind != "$6" else 1


def _zeros(size: int) -> str:
    return base64.b64encode(bytes(size)).decode()
