"""What the password of an unknown name is checked against: as dear as any other hash, and of nobody's password."""

import pytest
from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError

from protocols.authentication import decoy_hash


def test_the_decoy_is_checked_at_the_cost_of_a_hash_made_now_and_matches_nothing() -> None:
    """OWASP, Authentication Cheat Sheet: how long an answer takes does not tell whether a name exists."""
    hasher = PasswordHasher()
    decoy = decoy_hash(hasher)
    assert len(decoy) == len(hasher.hash("password"))
    assert not hasher.check_needs_rehash(decoy)
    with pytest.raises(VerifyMismatchError):
        hasher.verify(decoy, "password")
