"""What the store keeps of a neighbor: the bytes of its rows, and what they say after a start."""

from sluicegate.messaging.network.interest import Change, Interest, InterestKind
from sluicegate.messaging.topics.syntax import Syntax
from sluicegate.protocols.network.guaranteed.kept import KeptLink, kept_links

INTEREST = Interest(InterestKind.SUBSCRIBERS, "plant/>", Syntax.SMF, "", 0, False, True)
DIRECT = INTEREST._replace(is_guaranteed=False)

ROWS = {  # as spools have them
    b"link-interest/b/" + INTEREST.hash().to_bytes(8, "big"): bytes.fromhex("0104000000000007") + b"plant/>",
    b"link-lineage/b": bytes.fromhex("000000000000000a0000000000000000"),
    b"link-publisher/b/" + bytes.fromhex("000000000000000b00000000"): bytes.fromhex(
        "0000000000000004 0000000000000005 0000000000000008"
    ),
    b"link-publisher/b/" + bytes.fromhex("000000000000000b00000001"): bytes.fromhex(
        "0000000000000004 0000000000000005 0000000000000008 000000000010000a 000000000010000b"
    ),
}


def test_rows_are_written_as_ever() -> None:
    kept = KeptLink("b", b"")
    rows = kept.interest_rows(Change([INTEREST, DIRECT], []))
    kept.lineages.begin(0xA, 1)
    rows.append(kept.lineage_row())
    sequences = kept.sequences_of(0xB)
    sequences.raise_floor(4)
    rows.append(sequences.begin(5, 8))
    sequences.decided(5, 8, is_stored=True)
    rows.append(sequences.begin(0x10000A, 0x10000B))
    assert dict(rows) == ROWS


def test_rows_are_read_as_ever() -> None:
    kept = kept_links({**ROWS, b"flow-publisher/x/1": b"another's"}, b"")["b"]
    assert list(kept.interests) == [INTEREST]
    assert kept.lineages.of(7) == 0xA
    sequences = kept.sequences[0xB]
    assert (sequences.floor, sequences.stored.ranges()) == (4, [(5, 8), (0x10000A, 0x10000B)])
    assert {key for key, _ in kept.rows_to_delete()} == set(ROWS)


def test_a_row_that_cannot_be_read_costs_that_row_only() -> None:
    broken = {**ROWS, b"link-lineage/c": b"123", b"link-publisher/d": b"", b"link-interest/e/12345678": b"\xff"}
    assert list(kept_links(broken, b"")["b"].interests) == [INTEREST]


def test_keys_of_another_message_vpn_have_its_prefix() -> None:
    kept = KeptLink("b", b"\0sales\0")
    kept.lineages.begin(1, 1)
    rows = [kept.lineage_row(), *kept.interest_rows(Change([INTEREST], [])), kept.sequences_of(1).begin(1, 2)]
    assert all(key.startswith(b"\0sales\0link-") for key, _ in rows)
