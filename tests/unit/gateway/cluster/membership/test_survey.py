"""All brokers of a cluster, as their replicas answer."""

from dataclasses import replace

from sluicegate.gateway.cluster.membership.members import OWNER, ReplicaState
from sluicegate.gateway.cluster.membership.survey import Survey, decode_answer, encode_answer
from sluicegate.storage.replication.ownership.replica_list import ReplicaList
from support.cores.replica_states import WARM

ORDERS, STOCK = ReplicaList("orders", ("a", "b", "c")), ReplicaList("stock", ("b", "a"))


def asked(**states: ReplicaState) -> Survey:
    """A survey in which replicas of `orders` have answered."""
    survey = Survey([ORDERS, STOCK])
    for name, state in states.items():
        survey.hear(encode_answer("orders", replace(state, name=name)))
    return survey


OWNS = replace(WARM, role=OWNER, lag_messages=0, lag_bytes=0)


def test_answers_belong_to_the_replicas_of_their_brokers() -> None:
    survey = asked(a=OWNS, b=WARM, c=WARM, d=WARM)
    survey.hear(encode_answer("other", WARM))
    survey.hear(b"nothing")
    assert list(survey.brokers[0].states) == ["a", "b", "c"]
    assert survey.brokers[1].states == {}
    assert not survey.is_whole
    for name in STOCK.names:
        survey.hear(encode_answer("stock", replace(WARM, name=name)))
    assert survey.is_whole


def test_an_answer_is_read_back() -> None:
    assert decode_answer(encode_answer("a.b", WARM)) == ("a.b", WARM)
    assert decode_answer(b"[]") is None


def test_of_two_owners_the_later_one_is_believed() -> None:
    owner = asked(a=OWNS, b=replace(OWNS, epoch=9)).brokers[0].owner()
    assert owner is not None
    assert owner.name == "b"


def test_the_first_that_could_own_a_broker_is_preferred() -> None:
    assert asked(a=WARM, b=OWNS, c=WARM).brokers[0].preferred() == "a"
    assert asked(a=replace(WARM, caught_up=False), b=OWNS, c=WARM).brokers[0].preferred() == ""
    assert asked(b=WARM, c=OWNS).brokers[0].preferred() == "b"
    assert asked(a=OWNS, b=WARM).brokers[0].preferred() == ""
    assert asked(a=WARM, b=WARM).brokers[0].preferred() == "", "no owner is known: one of them takes over by itself"
