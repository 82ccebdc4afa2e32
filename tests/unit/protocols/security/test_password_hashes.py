"""Hashes of other brokers: their own examples match, other passwords do not, and broken ones are found."""

import base64
import hashlib
from typing import Final

import pytest

from sluicegate.gateway.config.sections.security.authentication import User
from sluicegate.protocols.security.account_secrets import PLAIN, AccountSecrets, decoy_of, is_hash, kind_of
from sluicegate.protocols.security.password_hashes import check_foreign_hash, foreign_hash_matches
from sluicegate.protocols.security.scram import Scram

# Of mosquitto_passwd 2.0.11.
MOSQUITTO_6: Final = (
    "$6$vDMdRY6FOWGDBGVG$z7nln2NOub/LwQaVUrbywTLhUXyBOvfnOGDIN9wf+UIOmtJyM5QF76xgIDnSgNgj4kwjIP71SE7iIq0ZDDpqWQ=="
)
MOSQUITTO_7: Final = (
    "$7$101$nl9BO4EjJv+AJjjB$JQhNDhjAWzr6IxpDex5QzLHbNFzWPLHVMPuz/gMN0+n3/WZDVymqhgdFryKZZWwWpKgK4Y2b/F4dyDwxJKrlgA=="
)
# The example in RabbitMQ's page on passwords: salt 908DC60A, password test12.
RABBITMQ_256: Final = "RABBITMQ-SHA-256$kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
RABBITMQ_512: Final = "RABBITMQ-SHA-512$" + base64.b64encode(b"salt" + hashlib.sha512(b"salttest12").digest()).decode()
EXAMPLES: Final = {
    "$6": (MOSQUITTO_6, b"secret1"),
    "$7$101": (MOSQUITTO_7, b"secret1"),
    "RABBITMQ-SHA-256": (RABBITMQ_256, b"test12"),
    "RABBITMQ-SHA-512": (RABBITMQ_512, b"test12"),
}


@pytest.mark.parametrize("kind", EXAMPLES)
def test_the_right_password_matches_and_no_other(kind: str) -> None:
    secret, password = EXAMPLES[kind]
    assert kind_of(secret) == kind
    assert is_hash(secret)
    assert foreign_hash_matches(secret, password)
    for wrong in (b"", password + b"x", secret.encode()):
        assert not foreign_hash_matches(secret, wrong)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_decoy_is_as_long_as_its_kind_and_matches_nothing(kind: str) -> None:
    decoy = decoy_of(kind)
    assert kind_of(decoy) == kind
    assert len(decoy) == len(EXAMPLES[kind][0])
    check_foreign_hash(decoy)
    assert not foreign_hash_matches(decoy, EXAMPLES[kind][1])


@pytest.mark.parametrize("kind", EXAMPLES)
def test_every_kind_of_the_accounts_is_a_check_for_all_names(kind: str) -> None:
    secrets = AccountSecrets({"a": EXAMPLES[kind][0], "b": "plain"})
    assert [*secrets.checks().decoys] == [kind]
    assert secrets.checks().cost.memory_bytes == 0
    assert kind_of(secrets["b"]) == PLAIN


@pytest.mark.parametrize("kind", EXAMPLES)
def test_scram_offers_nothing_for_a_hash(kind: str) -> None:
    mechanism = Scram({"a": EXAMPLES[kind][0]}, 15_000, lambda count: bytes(count))
    assert not mechanism.can_succeed


@pytest.mark.parametrize("kind", EXAMPLES)
def test_the_configuration_takes_them_and_no_truncated_one(kind: str) -> None:
    secret = EXAMPLES[kind][0]
    user = User.model_validate({"name": "a", "password": secret})
    assert user.is_hashed()
    for broken in (secret[:-4], secret[:-1], secret.rpartition("$")[0] + "$", secret + "$x"):
        with pytest.raises(ValueError, match="begins like a hash and is none"):
            User.model_validate({"name": "a", "password": broken})
        assert not foreign_hash_matches(broken, EXAMPLES[kind][1])


@pytest.mark.parametrize("iterations", ["0", "1000001", "99999999", "x"])
def test_iterations_have_bounds(iterations: str) -> None:
    """A check of more would occupy a thread for seconds, with each login."""
    with pytest.raises(ValueError, match="hash"):
        check_foreign_hash(MOSQUITTO_7.replace("$101$", f"${iterations}$"))
