"""The line between a bridge and the thread of its remote: what is gathered, and what is woken for it."""

from sluicegate.protocols.bridges.remote import Arrival, Ended, Line, Opened, Outgoing, Settlement
from support.bridges.settings import settings


class Rig:
    """A line, and how often each side was woken."""

    def __init__(self, *, window_messages: int = 3, window_bytes: int = 100) -> None:
        self.told_count = 0
        self.woken_count = 0
        self.line = Line(window_messages=window_messages, window_bytes=window_bytes, has_news=self._told)
        self.line.wake_with(self._woken)

    def _told(self) -> None:
        self.told_count += 1

    def _woken(self) -> None:
        self.woken_count += 1


def outgoing(number: int) -> Outgoing:
    return Outgoing(number=number, rule=0, topic="t", payload=b"", headers=None, path="", qos=1, retain=False)


def arrival(number: int, payload: bytes = b"x") -> Arrival:
    return Arrival(number=number, rule=0, topic="t", payload=payload, headers=None, qos=1)


def test_the_remote_is_woken_once_for_all_that_it_has_not_taken() -> None:
    rig = Rig()
    rig.line.publish([outgoing(1)])
    rig.line.publish([outgoing(2)])
    rig.line.settle([Settlement(9)])
    assert rig.woken_count == 1
    work = rig.line.work()
    assert [each.number for each in work.messages] == [1, 2]
    assert [each.number for each in work.settlements] == [9]
    rig.line.publish([outgoing(3)])
    assert rig.woken_count == 2


def test_a_remote_that_begins_to_wait_is_woken_for_work_that_is_there() -> None:
    rig = Rig()
    rig.line.wake_with(None)
    rig.line.publish([outgoing(1)])
    assert rig.woken_count == 0
    rig.line.wake_with(rig._woken)
    assert rig.woken_count == 1


def test_the_loop_is_told_once_for_all_news_that_it_has_not_taken() -> None:
    rig = Rig()
    rig.line.opened(Opened(20))
    rig.line.confirmed(1)
    assert rig.told_count == 0, "nothing is flushed yet"
    rig.line.flush()
    rig.line.confirmed(2)
    rig.line.flush()
    assert rig.told_count == 1
    news = rig.line.news()
    assert (news.opened, news.confirmed) == (Opened(20), [1, 2])
    rig.line.flush()
    assert rig.told_count == 1, "there is nothing new"
    rig.line.ended(Ended("lost"))
    assert rig.told_count == 2


def test_arrivals_use_the_window_until_they_are_settled() -> None:
    rig = Rig(window_messages=2)
    rig.line.arrived(arrival(1))
    assert rig.line.has_room()
    rig.line.arrived(arrival(2))
    assert not rig.line.has_room()
    rig.line.settle([Settlement(1)])
    rig.line.work()
    assert rig.line.has_room()


def test_bytes_use_the_window_too() -> None:
    rig = Rig(window_messages=10, window_bytes=100)
    rig.line.arrived(arrival(1, b"x" * 100))
    assert not rig.line.has_room()
    rig.line.settle([Settlement(1)])
    rig.line.work()
    assert rig.line.has_room()


def test_what_no_connection_has_taken_is_kept_or_forgotten_as_the_remote_wants_it() -> None:
    rig = Rig()
    rig.line.publish([outgoing(1)])
    rig.line.settle([Settlement(7)])
    rig.line.close()
    rig.line.reopen(keeps_messages=True)
    rig.line.publish([outgoing(2)])
    work = rig.line.work()
    assert [each.number for each in work.messages] == [1, 2]
    assert not work.is_closed
    rig.line.publish([outgoing(3)])
    rig.line.settle([Settlement(8)])
    rig.line.reopen(keeps_messages=False)
    work = rig.line.work()
    assert work.messages == []
    assert [each.number for each in work.settlements] == [8], "the remote may know what it means"


def test_settings_with_other_contents_are_other_settings() -> None:
    assert settings() == settings()
    assert settings(window_messages=7) != settings()
