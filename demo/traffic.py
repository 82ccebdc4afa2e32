"""The demo's first half: devices publish, workers work, one of them dies, and everything arrives."""

import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from demo.devices import publish_all
from demo.processes import DemoFailed, workers
from demo.readings import Reading
from sluicegate import BlockingBulk, BlockingClient

SOURCE: Final = "weather"  # the queues of gateway.yaml
TARGET: Final = "weather-done"
CURSOR: Final = "archive"
WORKERS: Final = 3
STUCK_AFTER_S: Final = 120.0
LOOK_EVERY_S: Final = 0.1


def traffic(
    urls: Mapping[str, str],
    readings: Mapping[str, Sequence[Reading]],
    folder: Path,
    *,
    published: Callable[[int], None],
    worked_on: Callable[[int], None],
    killed: Callable[[int], None],
) -> None:
    """Send all readings through; the callbacks receive the progress. Raises DemoFailed."""
    total = sum(len(rows) for rows in readings.values())
    with BlockingClient(urls["flow"]) as client:
        # From here on the gateway keeps what comes in for the archive, however fast the workers are.
        client.bulk.bind_cursor(SOURCE, CURSOR).unbind()
        with workers(WORKERS, (urls["amqp"], SOURCE, TARGET), folder) as crew:
            refusal: list[DemoFailed] = []
            devices = threading.Thread(target=_publish, args=(urls["mqtt"], readings, published, refusal))
            devices.start()
            try:
                _watch(client.bulk, crew, total, worked_on, killed, refusal, folder)
            finally:
                devices.join()
            if refusal:
                raise refusal[0]


def _publish(
    url: str, readings: Mapping[str, Sequence[Reading]], published: Callable[[int], None], refusal: list[DemoFailed]
) -> None:
    try:
        publish_all(url, readings, published)
    except DemoFailed as failed:
        refusal.append(failed)


def _watch(
    bulk: BlockingBulk,
    crew: Sequence["subprocess.Popen[bytes]"],
    total: int,
    worked_on: Callable[[int], None],
    killed: Callable[[int], None],
    refusal: Sequence[DemoFailed],
    folder: Path,
) -> None:
    """Wait until every reading has a result; halfway, kill a worker in the middle of its work."""
    pause = threading.Event()
    done, waited_s = 0, 0.0
    while done < total and not refusal:
        pause.wait(LOOK_EVERY_S)
        now = sum(each.next_sequence - 1 for each in bulk.queue_status(TARGET).positions)
        waited_s = 0.0 if now > done else waited_s + LOOK_EVERY_S
        done = now
        worked_on(done)
        if done >= total // 2 and crew[0].poll() is None:
            crew[0].kill()
            crew[0].wait()  # or it would seem to live when looked at next
            killed(done)
        if waited_s > STUCK_AFTER_S or all(each.poll() is not None for each in crew):
            raise DemoFailed(f"{done} of {total} readings are worked on, and no more come: see {folder}/worker-*.log")
