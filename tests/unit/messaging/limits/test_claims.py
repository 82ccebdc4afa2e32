"""Claims of brokers that share a limit: exact at its end, and without the lock far from it."""

import os
import subprocess
import sys
from types import TracebackType

from sluicegate.gateway.machine.shared_memory import make_memory, words_of
from sluicegate.messaging.limits.counts import SharedCounts, Want, key_of
from support.cores.shared_counts import shared_words

KEY, OTHER_KEY = key_of("connections"), key_of("sessions")
LIMIT = 2_000
BROKERS = 3


class CountedLock:
    """Counts how often it is taken."""

    def __init__(self) -> None:
        self.taken_count = 0

    def __enter__(self) -> None:
        self.taken_count += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


def two_brokers() -> tuple[CountedLock, SharedCounts, SharedCounts]:
    lock, words = CountedLock(), shared_words(2)
    one, other = [SharedCounts(words, place=place, brokers_count=2, lock=lock) for place in (0, 1)]
    for each in (one, other):
        each.publish()
    return lock, one, other


def test_the_lock_is_taken_near_a_limit_only() -> None:
    lock, one, other = two_brokers()
    assert one.claim([Want(KEY, 700, LIMIT)]) == -1
    assert other.claim([Want(KEY, 900, LIMIT)]) == -1
    assert lock.taken_count == 0
    assert one.claim([Want(KEY, 900, LIMIT)]) == -1
    assert one.claim([Want(KEY, 1_101, LIMIT)]) == 0
    assert lock.taken_count == 2
    assert (one.own(KEY), other.own(KEY)) == (900, 900)


def test_of_several_limits_one_that_is_near_has_all_of_them_claimed_with_the_lock() -> None:
    lock, one, other = two_brokers()
    assert one.claim([Want(KEY, 1, LIMIT), Want(OTHER_KEY, 2, 2)]) == -1
    assert other.claim([Want(KEY, 1, LIMIT), Want(OTHER_KEY, 1, 2)]) == 1
    assert lock.taken_count == 2
    assert (other.own(KEY), other.own(OTHER_KEY)) == (0, 0)


PROGRAM = """
import fcntl, sys
from sluicegate.gateway.machine.shared_memory import words_of
from sluicegate.messaging.limits.counts import SharedCounts, Want

class PatientLock:
    # The machine's lock, but for its patience, which ends when the machine of the tests is busy.
    def __enter__(self):
        fcntl.lockf(fd, fcntl.LOCK_EX)
    def __exit__(self, *_):
        fcntl.lockf(fd, fcntl.LOCK_UN)

fd, place, brokers, key, limit = [int(each) for each in sys.argv[1:]]
counts = SharedCounts(words_of(fd), place=place, brokers_count=brokers, lock=PatientLock())
counts.publish()
print("ready", flush=True)
sys.stdin.readline()
held = 0
while counts.claim([Want(key, held + 1, limit)]) < 0:
    held += 1
print(held, flush=True)
"""


def test_processes_fill_a_limit_together_and_exactly() -> None:
    fd = make_memory(BROKERS)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *[str(each) for each in (fd, place, BROKERS, KEY, LIMIT)]],
            pass_fds=[fd],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for place in range(BROKERS)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    held = [int(process.communicate()[0]) for process in processes]
    words = words_of(fd)
    shown = [SharedCounts(words, place=place, brokers_count=BROKERS, lock=CountedLock()) for place in range(BROKERS)]
    assert sum(held) == LIMIT
    assert shown[0].others(KEY) == sum(held[1:])
    del words, shown
    os.close(fd)
