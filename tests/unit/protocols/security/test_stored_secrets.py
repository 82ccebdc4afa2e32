"""Hashes that come from another broker: whole ones of every form pass, and broken, unknown and costly ones do not."""

import functools
from typing import Final

import pytest
from argon2 import PasswordHasher, Type
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.protocols.security.account_secrets import AccountSecrets, decoy_of, kind_of, standard_kind
from sluicegate.protocols.security.scram import NAME, NAME_512, stored_text
from sluicegate.protocols.security.stored_secrets import KINDS_MAX, check_kind, check_password_hash, check_scram_secret

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
    "argon2 of a GiB": f"$argon2id$v=19$m=1048576,t=1,p=4${SALT}${DIGEST}",
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
        f"$argon2id$v=19$m=2097152,t=1,p=4${SALT}${DIGEST}",  # two GiB and seconds
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


def test_one_set_of_accounts_has_few_kinds_of_hashes() -> None:
    """Each login is held against one of every kind, so a kind is not the affair of one account."""
    present = [f"$7${rounds}" for rounds in range(101, 101 + KINDS_MAX)]
    with pytest.raises(ValueError, match="further kind"):
        check_kind(MOSQUITTO_6, present, memory_bytes_max=256 << 20)
    check_kind(MOSQUITTO_7, present, memory_bytes_max=256 << 20)  # of a present kind
    check_kind(decoy_of(standard_kind()), present, memory_bytes_max=1 << 20)  # passwords get such hashes
    check_kind(MOSQUITTO_6, present[1:], memory_bytes_max=256 << 20)


def test_checks_of_all_kinds_together_take_two_seconds_at_most() -> None:
    costly = [f"$7${1_000_000 - number}" for number in range(2)]
    check_kind(decoy_of(costly[0]), [costly[1]], memory_bytes_max=256 << 20)
    for more in ("$7$1001", "SCRAM-SHA-256$4096", "$argon2id$v=19$m=65537,t=3,p=4"):
        with pytest.raises(ValueError, match="each login would take about 2"):
            check_kind(decoy_of(more), costly, memory_bytes_max=256 << 20)


def test_a_hash_whose_check_exceeds_the_memory_for_logins_is_refused() -> None:
    secret = WHOLE["argon2 of a GiB"]
    with pytest.raises(ValueError, match="login_memory_bytes_max, which is 268435456"):
        check_kind(secret, [], memory_bytes_max=256 << 20)
    check_kind(secret, [], memory_bytes_max=1 << 30)


def test_the_kinds_of_other_accounts_are_known() -> None:
    secrets = AccountSecrets({"ada": MOSQUITTO_6, "eve": MOSQUITTO_7, "joe": MOSQUITTO_7, "plain": "engine"})
    six, seven = kind_of(MOSQUITTO_6), kind_of(MOSQUITTO_7)
    assert (
        secrets.kinds_beside("nobody") == secrets.kinds_beside("plain") == secrets.kinds_beside("eve") == {six, seven}
    )
    assert secrets.kinds_beside("ada") == {seven}
    secrets.drop("eve")
    assert secrets.kinds_beside("joe") == {six}
