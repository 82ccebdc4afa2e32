"""Names of entries in a directory, and how two of them are compared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ldap3.utils.dn import escape_rdn

from sluicegate.protocols.security.backends.distinguished_names import canonical, values

TEXTS = st.text(min_size=1).filter(lambda text: "\0" not in text)


@given(TEXTS)
def test_a_value_that_was_escaped_is_itself_again(text: str) -> None:
    assert values(f"uid={escape_rdn(text)},dc=example") == [text, "example"]


@pytest.mark.parametrize("other", ["CN=A\\2C B, DC=Example", "cn = a\\,\\20b ,dc=example", "cn=a\\2c b,dc=example"])
def test_spellings_of_one_name_are_equal(other: str) -> None:
    assert canonical(other) == canonical("cn=a\\, b,dc=example")


@pytest.mark.parametrize("text", ["", "cn", "cn=", "eve@example.com", "EXAMPLE\\eve", "cn=a,b", "cn=a\\", "cn=a,,dc=b"])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not the name"):
        values(text)
