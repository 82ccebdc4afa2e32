"""What is said of a peer whose socket is passed to another process."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.protocols.transport.interface import PeerRecord
from sluicegate.protocols.transport.passing.passed_peer import decode_peer, encode_peer

TEXTS = st.text(max_size=50)
OPTIONAL = st.none() | TEXTS
FACTS = ("listener", "host", "port", "is_encrypted", "alpn", "certificate_name", "subprotocol")


@given(
    peer=st.builds(
        PeerRecord,
        listener=TEXTS,
        host=TEXTS,
        port=st.integers(0, 65_535),
        is_encrypted=st.booleans(),
        alpn=OPTIONAL,
        certificate_name=OPTIONAL,
        subprotocol=OPTIONAL,
    ),
    data=st.binary(max_size=1000),
    before=st.binary(max_size=3),
)
def test_a_peer_arrives_as_it_was_described(peer: PeerRecord, data: bytes, before: bytes) -> None:
    arrived, rest = decode_peer(before + encode_peer(peer, data), len(before))
    assert rest == data
    for name in FACTS:
        assert getattr(arrived, name) == getattr(peer, name)
        assert type(getattr(arrived, name)) is type(getattr(peer, name))


def test_a_name_that_is_too_long_is_refused() -> None:
    """A certificate may have one."""
    with pytest.raises(ValueError, match="allowed: 65534"):
        encode_peer(PeerRecord("mqtt_tls", "::1", 1, certificate_name="x" * 65_535), b"")
