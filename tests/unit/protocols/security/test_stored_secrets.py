"""Hashes that come from another broker: whole ones of every form pass, and broken, unknown and costly ones do not."""

import functools
from typing import Final

import pytest
from argon2 import PasswordHasher, Type
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.protocols.security.account_secrets import decoy_of
from sluicegate.protocols.security.scram import NAME, NAME_512, stored_text
from sluicegate.protocols.security.stored_secrets import check_password_hash, check_scram_secret

QUICK: Final = functools.partial(PasswordHasher, time_cost=1, memory_cost=8, parallelism=1)
SALT: Final = "c2FsdHNhbHRzYWx0c2FsdA"
DIGEST: Final = "A" * 43
MOSQUITTO_6: Final = (
    "$6$vDMdRY6FOWGDBGVG$z7nln2NOub/LwQaVUrbywTLhUXyBOvfnOGDIN9wf+UIOmtJyM5QF76xgIDnSgNgj4kwjIP71SE7iIq0ZDDpqWQ=="
)
MOSQUITTO_7: Final = (
    "$7$101$nl9BO4EjJv+AJjjB$JQhNDhjAWzr6IxpDex5QzLHbNFzWPLHVMPuz/gMN0+n3/WZDVymqhgdFryKZZWwWpKgK4Y2b/F4dyDwxJKrlgA=="
)
WHOLE: Final = {
    "argon2id": QUICK().hash("engine"),
    "argon2i": QUICK(type=Type.I).hash("engine"),
    "argon2d": QUICK(type=Type.D).hash("engine"),
    "argon2 as it is made now": PasswordHasher().hash("engine"),
    "argon2 of RFC 9106": f"$argon2id$v=19$m=2097152,t=1,p=4${SALT}${DIGEST}",
    NAME: stored_text("engine", 4096, bytes),
    NAME_512: stored_text("engine", 15_000, bytes, NAME_512),
    "mosquitto 1": MOSQUITTO_6,
    "mosquitto 2": MOSQUITTO_7,
    "RabbitMQ": "RABBITMQ-SHA-256$kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR",
    "RabbitMQ 512": decoy_of("RABBITMQ-SHA-512"),
}


@pytest.mark.parametrize("form", WHOLE)
def test_a_whole_hash_of_every_form_passes(form: str) -> None:
    check_password_hash(WHOLE[form])


@given(form=st.sampled_from(sorted(WHOLE)), data=st.data())
def test_a_truncated_hash_does_not_pass_and_is_not_told(form: str, data: st.DataObject) -> None:
    """Law: no beginning of a hash is one, unless base64 allows it: argon2 digests have no fixed length."""
    whole = WHOLE[form]
    shortest = whole.rindex("$") + 6 if "$argon2" in whole else len(whole)
    cut = whole[: data.draw(st.integers(0, shortest - 1))]
    with pytest.raises(ValueError, match=r"hash|secret|form|bytes|base64|SCRAM") as refused:
        check_password_hash(cut)
    assert len(cut) < 20 or cut[-12:] not in str(refused.value)


@pytest.mark.parametrize(
    "secret",
    [
        f"$argon2id$v=19$m=2097152,t=2,p=4${SALT}${DIGEST}",  # four GiB and seconds
        f"$argon2id$v=19$m=65536,t=4294967295,p=4${SALT}${DIGEST}",
        f"$argon2id$v=19$m=65536,t=3,p=65${SALT}${DIGEST}",
        f"$argon2id$v=19$m=8,t=3,p=4${SALT}${DIGEST}",  # RFC 9106, 3.1: at least 8 KiB for each lane
        f"$argon2id$v=19$m=65536,t=3,p=4$AAAA${DIGEST}",
        f"$argon2id$v=20$m=65536,t=3,p=4${SALT}${DIGEST}",
        WHOLE[NAME].replace("$4096:", "$4095:"),
        WHOLE[NAME].replace("$4096:", "$1000001:"),
        WHOLE[NAME].replace("SCRAM-SHA-256", "SCRAM-SHA-512"),  # its keys are too short
        MOSQUITTO_7.replace("$101$", "$1000001$"),
        "$1$salt$hash",
        "engine",
        "",
    ],
)
def test_what_is_too_costly_or_of_no_known_form_does_not_pass(secret: str) -> None:
    with pytest.raises(ValueError, match=r"allowed|not|form|incomplete"):
        check_password_hash(secret)


def test_keys_of_scram_are_of_the_stored_form_only() -> None:
    for name in (NAME, NAME_512):
        check_scram_secret(WHOLE[name])
    for form in ("argon2id", "mosquitto 2", "RabbitMQ"):
        with pytest.raises(ValueError, match="not the stored form"):
            check_scram_secret(WHOLE[form])
