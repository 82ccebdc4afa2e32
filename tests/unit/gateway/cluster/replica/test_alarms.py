"""What an owner reports of its replicas and its log, on a clock of the test."""

from dataclasses import replace

from sluicegate.gateway.cluster.membership.members import ReplicaState
from sluicegate.gateway.cluster.replica.alarms import APPEND_S_MAX, STANDBY_S, Alarms
from support.cores.replica_states import WARM


class Reports:
    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []
        self.why_away = ""
        self.alarms = Alarms(lambda kind, text: self.said.append((kind.name, text)), lambda _: self.why_away)
        self.alarms.look(["b"], {}, 0.0, 0.0)

    def look(
        self, state: ReplicaState | None, now_s: float, *, append_waits_s: float = 0.0, held_back: str = ""
    ) -> list[tuple[str, str]]:
        present = {} if state is None else {"b": state}
        self.alarms.look(["b"], present, append_waits_s, now_s, held_back=held_back)
        said, self.said = self.said, []
        return said


def test_a_standby_that_is_away_for_long_is_reported_once_and_when_it_is_back() -> None:
    reports = Reports()
    assert reports.look(None, STANDBY_S) == []
    said = reports.look(None, STANDBY_S + 1)
    assert said == [("SYSTEM_HA_STANDBY_DOWN", "replica b could not take over: nothing is heard of it")]
    assert reports.look(None, 2 * STANDBY_S) == []
    assert reports.look(WARM, 3 * STANDBY_S) == [("SYSTEM_HA_STANDBY_UP", "replica b can take over")]
    assert reports.look(WARM, 4 * STANDBY_S) == []


def test_a_standby_that_starts_again_soon_is_nothing_to_report() -> None:
    reports = Reports()
    assert reports.look(WARM, 5.0) == []
    assert reports.look(None, 5.0 + STANDBY_S) == []
    assert reports.look(WARM, 6.0 + STANDBY_S) == []


def test_a_standby_that_cannot_go_on_is_reported_with_its_problem() -> None:
    reports = Reports()
    ((name, text),) = reports.look(replace(WARM, caught_up=False, problem="the disk is full"), STANDBY_S + 1)
    assert (name, text) == ("SYSTEM_HA_STANDBY_DOWN", "replica b could not take over: the disk is full")


def test_a_log_that_could_lose_records_is_reported_with_the_reason() -> None:
    reports = Reports()
    assert reports.look(WARM, 1.0, held_back="the stream forgets") == [("SYSTEM_HA_LOG_DOWN", "the stream forgets")]
    assert reports.look(WARM, 2.0, held_back="the stream forgets", append_waits_s=APPEND_S_MAX + 1) == []
    assert reports.look(WARM, 3.0, append_waits_s=APPEND_S_MAX) == [], "an append waits still"
    assert [name for name, _ in reports.look(WARM, 4.0)] == ["SYSTEM_HA_LOG_UP"]


def test_a_standby_is_reported_with_the_reason_why_it_is_away_if_that_is_known() -> None:
    reports = Reports()
    reports.why_away = "it needs a later release"
    ((_, text),) = reports.look(None, STANDBY_S + 1)
    assert text == "replica b could not take over: it needs a later release"


def test_a_log_that_confirms_nothing_is_reported_once_and_when_it_does_again() -> None:
    reports = Reports()
    assert reports.look(WARM, 1.0, append_waits_s=APPEND_S_MAX) == []
    assert [name for name, _ in reports.look(WARM, 2.0, append_waits_s=APPEND_S_MAX + 1)] == ["SYSTEM_HA_LOG_DOWN"]
    assert reports.look(WARM, 3.0, append_waits_s=APPEND_S_MAX - 1) == []
    assert [name for name, _ in reports.look(WARM, 4.0)] == ["SYSTEM_HA_LOG_UP"]
