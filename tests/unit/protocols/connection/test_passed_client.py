"""What a broker of a machine tells another of a client that it has authenticated."""

import pytest

from sluicegate.protocols.connection.passed_client import PassedClient, decode_client
from sluicegate.protocols.security.authentication import ANONYMOUS, Principal
from sluicegate.protocols.security.backends.guarded_backend import Admission, Granted

CLIENTS = [
    PassedClient("default", "", ANONYMOUS),
    PassedClient("größe", "client \udc80", Principal("user", 2**40)),
    PassedClient("default", "client", Principal("user"), Granted(Admission("", "größe"), 2**40)),
]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("data", [b"", bytes(70_000)])
def test_a_client_arrives_as_it_was(client: PassedClient, data: bytes) -> None:
    assert decode_client(client.encode(data)) == (client, data)


def test_a_name_that_has_no_room_is_refused() -> None:
    with pytest.raises(ValueError, match="65535 bytes"):
        PassedClient("default", "x" * 65_535, ANONYMOUS).encode(b"")
