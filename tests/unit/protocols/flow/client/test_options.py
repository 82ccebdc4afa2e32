"""The options of a client: the user name, and its former name."""

from dataclasses import replace

import pytest

from sluicegate import ClientOptions


def test_a_client_logs_in_by_username_and_by_its_former_name() -> None:
    new, former = ClientOptions(username="ada", password="engine"), ClientOptions(user="ada", password="engine")
    assert new.login_name() == former.login_name() == "ada"
    assert replace(new, username="bob").login_name() == "bob"
    assert "user=" not in repr(new)


def test_a_username_under_both_names_is_refused() -> None:
    with pytest.raises(ValueError, match="give username only: user is its former name"):
        ClientOptions(username="ada", user="ada", password="engine")
