"""Which of two sites is active: states, decisions, and the switches that are refused."""

import pytest

from sluicegate.storage.replication.messages import Epoch, Handed
from sluicegate.storage.replication.replica import Append, Replica, Role
from sluicegate.storage.replication.sites.states import (
    CannotSwitch,
    Decision,
    SiteRole,
    SiteState,
    UnreadableState,
    answered,
    begun_anew,
    decide,
    decode_state,
    demoted,
    demoting,
    encode_state,
    first_state,
    following,
    is_later,
    promoted,
    promoted_with_loss,
    serving,
)
from support.cores.replicated_log import ModelStream

PARIS = SiteState("paris", SiteRole.ACTIVE, 3)
LONDON = SiteState("london", SiteRole.STANDBY, 3)


def test_a_state_is_read_as_it_was_written() -> None:
    state = SiteState("paris", SiteRole.DEMOTING, 4, 2, 2**64 - 1, 904, skips=True, serves_alone=True)
    assert decode_state(encode_state(state), "it") == state


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"{}",
        encode_state(PARIS).replace(b'"active"', b'"main"'),
        encode_state(PARIS).replace(b":3,", b":-3,"),
        encode_state(PARIS).replace(b":3,", b':"3",'),
        encode_state(PARIS).replace(b'"paris"', b"7"),
    ],
)
def test_a_value_that_no_replica_writes_is_refused(value: bytes) -> None:
    with pytest.raises(UnreadableState, match="it does not say what the site is"):
        decode_state(value, "it")


def test_a_standby_site_receives_whatever_its_mate_is() -> None:
    for mate in (None, PARIS, LONDON._replace(site="paris")):
        assert decide(LONDON, mate, is_continued=True) is Decision.RECEIVE


def test_an_active_site_serves_unless_its_mate_was_promoted_later() -> None:
    assert decide(PARIS, LONDON, is_continued=False) is Decision.SERVE
    assert decide(PARIS, promoted_with_loss(LONDON, PARIS, 7), is_continued=True) is Decision.YIELD


def test_a_site_that_was_away_asks_its_mate_unless_an_operator_says_otherwise() -> None:
    assert decide(PARIS, None, is_continued=True) is Decision.SERVE
    assert decide(PARIS, None, is_continued=False) is Decision.ASK
    alone = promoted(PARIS, None, None)
    assert alone.epoch == PARIS.epoch
    assert decide(alone, None, is_continued=False) is Decision.SERVE
    assert decide(answered(alone), None, is_continued=False) is Decision.ASK


def test_a_site_that_has_lost_its_log_yields_to_a_standby_that_has_it() -> None:
    new = first_state("paris", is_active=True)
    assert decide(new, LONDON, is_continued=False) is Decision.YIELD
    assert decide(new, first_state("london", is_active=False), is_continued=False) is Decision.SERVE
    assert serving(new, 3).epoch == 1


def test_a_planned_switch_keeps_the_incarnation() -> None:
    given_up = demoted(demoting(PARIS._replace(incarnation=9)))
    assert given_up.role is SiteRole.STANDBY
    taken = promoted(following(LONDON, given_up), given_up, Handed("london", 3))
    assert (taken.role, taken.epoch, taken.incarnation, taken.skips) == (SiteRole.ACTIVE, 4, 9, False)
    assert is_later(given_up, taken)
    assert following(given_up, taken).epoch == 4


@pytest.mark.parametrize("handed", [None, Handed("rome", 3)])
def test_a_site_whose_log_is_not_given_up_to_it_is_not_promoted(handed: Handed | None) -> None:
    with pytest.raises(CannotSwitch, match="does not end with a hand-over to it: demote the active site first"):
        promoted(LONDON, PARIS, handed)


def test_a_promotion_is_refused_for_the_site_that_does_not_answer() -> None:
    with pytest.raises(CannotSwitch, match="site paris does not answer, so it is not known what site london lacks"):
        promoted(LONDON, None, None, unanswered="site paris")
    taken = promoted(LONDON, None, Handed("london", 3), unanswered="site paris")  # there is nothing behind it
    assert taken.role is SiteRole.ACTIVE


def test_a_promotion_with_a_loss_begins_another_incarnation_and_skips_sequences_once() -> None:
    taken = promoted_with_loss(LONDON, PARIS._replace(epoch=5), 7)
    assert (taken.role, taken.epoch, taken.incarnation, taken.skips) == (SiteRole.ACTIVE, 6, 7, True)
    served = serving(taken, 905)
    assert (served.skips, served.base) == (False, 904)
    assert serving(served, 1000) == served  # its next owners take over later in the log


@pytest.mark.parametrize(
    ("role", "said"),
    [
        (SiteRole.ACTIVE, "site paris is active already: promote it without a loss"),
        (SiteRole.DEMOTING, "site paris is being demoted"),
    ],
)
def test_a_site_that_is_not_the_standby_has_nothing_to_lose(role: SiteRole, said: str) -> None:
    with pytest.raises(CannotSwitch, match=said):
        promoted_with_loss(PARIS._replace(role=role), LONDON, 7)


def test_a_site_is_demoted_once() -> None:
    with pytest.raises(CannotSwitch, match="site paris is demoting already"):
        demoting(demoting(PARIS))
    with pytest.raises(CannotSwitch, match="is being demoted"):
        promoted(demoting(PARIS), LONDON, None)
    with pytest.raises(CannotSwitch, match="site london is standby already"):
        demoting(LONDON)


def test_a_log_that_is_begun_anew_has_a_name_of_its_own() -> None:
    taken = promoted_with_loss(LONDON, PARIS, 7)._replace(base=904)
    anew = begun_anew(demoted(PARIS), taken)
    assert (anew.generation, anew.epoch, anew.incarnation, anew.base) == (1, 4, 7, 904)


def owner_of(stream: ModelStream) -> Replica:
    """Return a replica that owns the log of a stream, at site paris."""
    owner = Replica("a", "0")
    owner.site, owner.site_epoch = "paris", 3
    owner.read(1, stream.messages[0])
    owner.take_key(1)
    append = owner.append_epoch(1, 0)
    assert append is not None
    stream.append(append)
    owner.read(2, append.data)
    return owner


def stored(stream: ModelStream, owner: Replica, appends: list[Append]) -> None:
    for append in appends:
        sequence = stream.append(append)
        assert sequence is not None
        owner.confirm(append, sequence)


def reader_of(stream: ModelStream) -> Replica:
    reader = Replica("b", "0")
    for place, data in enumerate(stream.messages):
        reader.read(place + 1, data)
    return reader


def test_a_reader_knows_to_which_site_the_broker_is_given_up_until_another_owner_has_it() -> None:
    stream = ModelStream(checks=True)
    owner = owner_of(stream)
    assert owner.owner == Epoch("a", "0", "paris", 3)
    owner.hands_to = "london"
    stored(stream, owner, owner.close(b"\x00", 0))
    assert owner.role is Role.STANDBY
    reader = reader_of(stream)
    assert [each.handed for each in (owner, reader)] == [Handed("london", 3)] * 2

    reader.take_key(2)
    append = reader.append_epoch(len(stream.messages), 0)
    assert append is not None
    stream.append(append)
    reader.read(len(stream.messages), append.data)
    assert reader.role is Role.OWNER
    assert reader.handed is None
    assert reader.clean == b"\x00"  # what was delivered is known at the other site


def test_an_owner_that_did_not_close_gives_the_broker_up_as_well() -> None:
    stream = ModelStream(checks=True)
    owner = owner_of(stream)
    stored(stream, owner, owner.hand_over("london", 0))
    assert reader_of(stream).handed == Handed("london", 3)
