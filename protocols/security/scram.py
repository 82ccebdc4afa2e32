"""SCRAM (RFC 5802), with SHA-256 (RFC 7677) or SHA-512: a password is proven without being sent or stored.

A secret is either a plain password, from which SCRAM's stored form is derived once, or that stored form itself, written
`SCRAM-SHA-256$iterations:salt$stored-key:server-key` as PostgreSQL writes it. The form of one mechanism is of no use to
the other, and SCRAM-SHA-512 derives none: each start would have to, and few clients ask for it. A hash is of no use
here: its account is answered like one that does not exist. That answer costs the same steps, with a salt that never
changes for a name and as many iterations as an account has, so it does not reveal whether an account exists.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from sluicegate.protocols.security.account_secrets import SCRAM_KEY_BYTES, is_hash, scram_of
from sluicegate.protocols.security.authentication import Authenticated, AuthenticationFailed, Challenge, Principal

NAME: Final = "SCRAM-SHA-256"
NAME_512: Final = "SCRAM-SHA-512"  # no RFC has it, but brokers and clients of MQTT do
_DIGESTS: Final = {NAME: "sha256", NAME_512: "sha512"}
# What a stolen key costs to guess the password behind it, for each guess. Clients pay it once for each exchange: 5 ms
# for the least, a third of a second for the most, which the clients of the flow protocol still do.
ITERATIONS_MIN: Final = 15_000  # RFC 7677, section 4
ITERATIONS_MAX: Final = 1_000_000
SALT_BYTES: Final = 16
_STORED: Final = re.compile(r"SCRAM-SHA-(?:256|512)\$(\d{4,7}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)")

StoredSecret = tuple[bytes, bytes, bytes, int]  # salt, stored key, server key, iterations


class Scram:
    """A mechanism, for a set of accounts that may change: an exchange that is under way fails if its own has."""

    needs_encryption = False

    def __init__(
        self,
        secrets: Mapping[str, str],
        iterations: int,
        random_bytes: Callable[[int], bytes],
        name: str = NAME,
    ) -> None:
        """`iterations` are for plain passwords: those of a stored form stand in it."""
        self.name = name
        # Clients of SASL take the strongest mechanism that is offered, and most accounts have no keys of this one.
        self.is_sasl = name == NAME
        self._secrets = _usable(secrets, name)
        self._iterations = iterations
        self._random_bytes = random_bytes
        self._derived: dict[str, StoredSecret] = {}  # of all plain passwords
        self._counts: list[int] = []  # the iterations of each account, ascending; empty: not known yet
        self._decoy_key = random_bytes(32)  # for good: salts of names that do not exist change as little as others
        self._derive()

    @property
    def can_succeed(self) -> bool:
        """Whether there is an account with a secret of use here."""
        return bool(self._secrets)

    def configure(self, secrets: Mapping[str, str], iterations: int) -> None:
        """Go by these accounts from now on, and derive of plain passwords with so many iterations."""
        kept = [name for name in self._derived if secrets.get(name) == self._secrets[name]]
        self._derived = {name: self._derived[name] for name in kept} if iterations == self._iterations else {}
        self._secrets = _usable(secrets, self.name)
        self._iterations = iterations
        self._counts = []
        self._derive()

    def change(self, name: str, secret: str | None) -> None:
        """Go by another secret of one account from now on. None: there is no such account any more."""
        self._derived.pop(name, None)
        self._counts = []
        if secret is None:
            self._secrets.pop(name, None)
        else:
            self._secrets[name] = secret

    def begin(self) -> "ScramExchange":
        """Begin one exchange."""
        return ScramExchange(self, self._random_bytes(18).hex())

    def stored(self, user_name: str) -> StoredSecret:
        """Return what SCRAM keeps of an account; for one that cannot be used, something as good as nothing."""
        found = self._derived.get(user_name)
        if found is None:
            secret = self._secrets.get(user_name)
            if secret is None:
                return self._decoy(user_name)
            found = self._derived[user_name] = stored_secret(secret, self._iterations, self._random_bytes)
        return found

    def _derive(self) -> None:
        """Derive of all plain passwords: were it done at the first exchange of each, that would tell a name by time."""
        for name, secret in list(self._secrets.items()):
            if name in self._derived or scram_of(secret):
                continue
            try:
                self._derived[name] = stored_secret(secret, self._iterations, self._random_bytes)
            except ValueError:  # no client can send it either
                del self._secrets[name]

    def _decoy(self, user_name: str) -> StoredSecret:
        salt = hmac.digest(self._decoy_key, b"salt" + user_name.encode(), "sha256")[:SALT_BYTES]
        stored_key, server_key = [self._random_bytes(SCRAM_KEY_BYTES[self.name]) for _ in range(2)]
        return salt, stored_key, server_key, self._decoy_iterations(user_name)

    def _decoy_iterations(self, user_name: str) -> int:
        """Return the iterations of one of the accounts: always the same share of all names has as many as it has.

        As accounts get new passwords and more iterations, so do names that do not exist, and each of them once.
        """
        if not self._secrets:
            return self._iterations
        if not self._counts:
            self._counts = sorted([iterations_of(each) or self._iterations for each in self._secrets.values()])
        drawn = int.from_bytes(hmac.digest(self._decoy_key, b"iterations" + user_name.encode(), "sha256")[:8], "big")
        return self._counts[drawn * len(self._counts) >> 64]


def _usable(secrets: Mapping[str, str], mechanism: str) -> dict[str, str]:
    forms = ("", NAME) if mechanism == NAME else (mechanism,)
    return {name: secret for name, secret in secrets.items() if scram_of(secret) in forms and not is_hash(secret)}


class ScramExchange:
    """One client's proof, in two steps."""

    def __init__(self, mechanism: Scram, server_nonce: str) -> None:
        self._server = _library().ScramMechanism(mechanism.name).make_server(self._look_up, s_nonce=server_nonce)
        self._mechanism = mechanism
        self._user_name = ""
        self._stored: StoredSecret | None = None
        self._is_answered = False

    def step(self, data: bytes | None) -> Challenge | Authenticated:
        """Take the client's message and return ours. Raises AuthenticationFailed."""
        if data is None and not self._is_answered:
            return Challenge(b"")  # the client begins, and has not
        try:
            message = (data or b"").decode()
            if not self._is_answered:
                self._server.set_client_first(message)
                self._is_answered = True
                return Challenge(self._server.get_server_first().encode())
            self._server.set_client_final(message)
            if self._mechanism.stored(self._user_name) != self._stored:
                raise AuthenticationFailed(f"{self._attempt()}: the account has changed meanwhile")
            return Authenticated(Principal(self._user_name), self._server.get_server_final().encode())
        except (_library().ScramException, UnicodeDecodeError) as failure:
            raise AuthenticationFailed(f"{self._attempt()}: {failure}") from None

    def _attempt(self) -> str:
        return f"{self._mechanism.name} of user {self._user_name[:80]!r}"

    def _look_up(self, user_name: str) -> StoredSecret:
        self._user_name = user_name
        self._stored = self._mechanism.stored(user_name)
        return self._stored


def _library() -> Any:
    """Return scramp, imported for the first who needs it: with what it imports it was a thirtieth of every start."""
    import scramp

    return scramp


def stored_secret(secret: str, iterations: int, random_bytes: Callable[[int], bytes]) -> StoredSecret:
    """Return what SCRAM keeps of a secret, plain or stored. Raises ValueError for a stored form that is broken."""
    return read_stored(secret) if scram_of(secret) else _derived(secret, iterations, random_bytes, NAME)


def iterations_of(secret: str) -> int:
    """Return how many iterations a secret was stored with; 0: it is not in the stored form."""
    parts = _STORED.fullmatch(secret)
    return 0 if parts is None else int(parts[1])


def read_stored(secret: str) -> StoredSecret:
    """Return what a stored form says. Raises ValueError for one that is broken."""
    parts = _STORED.fullmatch(secret)
    if parts is None:
        raise ValueError(
            f"a secret begins with '{scram_of(secret)}$' but does not continue with iterations:salt$key:key"
        )
    try:
        salt, stored_key, server_key = [base64.b64decode(part, validate=True) for part in parts.groups()[1:]]
    except binascii.Error as problem:
        raise ValueError(f"a SCRAM secret is not in base64: {problem}") from None
    return salt, stored_key, server_key, int(parts[1])


def few_iterations(count: int) -> str:
    """Say that a key was stored with fewer iterations than it would be now."""
    return f"its SCRAM key has {count} iterations, and a new one at least {ITERATIONS_MIN}: give it a new password"


def _derived(password: str, iterations: int, random_bytes: Callable[[int], bytes], name: str) -> StoredSecret:
    """RFC 5802, section 3. Raises ValueError for a password that RFC 4013 prohibits."""
    salt = random_bytes(SALT_BYTES)
    digest = _DIGESTS[name]
    salted = hashlib.pbkdf2_hmac(digest, _normalized(password).encode(), salt, iterations)
    return salt, _stored_key(salted, digest), hmac.digest(salted, b"Server Key", digest), iterations


def _stored_key(salted: bytes, digest: str) -> bytes:
    return hashlib.new(digest, hmac.digest(salted, b"Client Key", digest)).digest()


def _normalized(password: str) -> str:
    """Return a password in the one form of its text that SCRAM knows. Raises ValueError when RFC 4013 has none."""
    if password.isascii() and password.isprintable():
        return password
    library = _library()
    try:
        prepared: str = library.utils.saslprep(password)
    except library.ScramException as problem:
        raise ValueError(str(problem)) from None
    return prepared


def stored_text(password: str, iterations: int, random_bytes: Callable[[int], bytes], name: str = NAME) -> str:
    """Return the stored form of a plain password as a text, for a mechanism.

    Raises ValueError for a password that RFC 4013 prohibits.
    """
    salt_text, stored_key_text, server_key_text = [
        base64.b64encode(part).decode("ascii") for part in _derived(password, iterations, random_bytes, name)[:3]
    ]
    return f"{name}${iterations}:{salt_text}${stored_key_text}:{server_key_text}"


def password_matches(secret: str, password: bytes) -> bool:
    """Return whether a plain password is the one behind a stored SCRAM secret. Takes milliseconds by design."""
    salt, stored_key, _, iterations = read_stored(secret)
    digest = _DIGESTS[scram_of(secret)]
    salted = hashlib.pbkdf2_hmac(digest, _prepared(password), salt, iterations)
    return hmac.compare_digest(_stored_key(salted, digest), stored_key)


def _prepared(password: bytes) -> bytes:
    """Return a password that a client has sent in that form; what has none is left as it is."""
    try:
        return _normalized(password.decode()).encode()
    except ValueError:  # it is no UTF-8 either, or may be no password
        return password
