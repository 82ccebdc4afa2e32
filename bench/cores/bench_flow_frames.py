"""Micro-benchmark of the flow protocol's hot frames: what one message costs on its way in, and on its way out.

Run with `python bench/cores/bench_flow_frames.py`, the repository's root on PYTHONPATH; for the compiled figures, after
a compiled build. Each row is the best of several rounds of one full window, in processor time.
"""

from collections.abc import Callable
from time import process_time_ns
from typing import Final

from sluicegate.messaging.message.headers import Headers
from sluicegate.protocols.flow.codec.frame import PREFACE
from sluicegate.protocols.flow.codec.frames.deliver import DeliverHead, write_alike, write_deliver
from sluicegate.protocols.flow.codec.frames.publish import write_publish
from sluicegate.protocols.flow.codec.frames.session import AUTH_DONE, Auth, AuthAnswer, Hello, Welcome
from sluicegate.protocols.flow.engine import engine as engine_module
from sluicegate.protocols.flow.engine.engine import FlowEngine

COUNT: Final = 1_000
PAYLOAD: Final = b"x" * 100
TOPIC: Final = "site/7/device/123/temperature"
ROUNDS: Final = 30
WALL_MS: Final = 1_700_000_000_000
FRAME_BYTES_MAX: Final = 1 << 20
KEYED: Final = Headers(partition_key="device-1")


def opened() -> FlowEngine:
    """Return a gateway's engine with an authenticated client."""
    engine = FlowEngine(
        is_gateway=True, frame_bytes_max=FRAME_BYTES_MAX, connect_timeout_ms=1_000, keep_alive_ms=1_000, now_ms=0
    )
    engine.feed(PREFACE + Hello("c", "p", 0, ()).encode(), 0, 0)
    engine.welcome(Welcome("p", 1_000, FRAME_BYTES_MAX, 10, (), ("ANONYMOUS",)), 0)
    engine.feed(Auth("ANONYMOUS", None).encode(), 0, 0)
    engine.auth_answer(AuthAnswer(AUTH_DONE, None), 0)
    return engine


def best_ns(action: Callable[[], object]) -> float:
    """Return the nanoseconds per message of the fastest round."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = process_time_ns()
        action()
        best = min(best, process_time_ns() - start)
    return best / COUNT


def decode(headers: Headers | None = None, topics: int = 1, lengths: int = 1) -> float:
    """Feed one read of PUBLISH frames."""
    data = b"".join(
        write_publish(
            1, n, f"{TOPIC}/{n % topics}", PAYLOAD[: 100 - n % lengths], headers, to_queue=False, ttl_ms=0, delay_ms=0
        )
        for n in range(1, COUNT + 1)
    )
    engine = opened()
    return best_ns(lambda: engine.feed(data, 0, WALL_MS))


def head() -> DeliverHead:
    """Return the head that the messages of one delivery share."""
    return DeliverHead(
        1, 0, 1, delivery_count=1, redelivered=False, was_direct=False, first_of_group=False, received_ms=WALL_MS
    )


def encode_alone(headers: Headers | None = None) -> float:
    """Encode DELIVER frames one by one, and join them for one write."""

    def action() -> None:
        out: list[bytes] = []
        for n in range(1, COUNT + 1):
            out.append(write_deliver(head(), n, n, topic=b"t", headers=headers, payload=PAYLOAD, wall_ms=WALL_MS))
        b"".join(out)

    return best_ns(action)


def encode_alike(lengths: int = 1) -> float:
    """Encode equal rows together, and join them for one write."""
    payloads = [PAYLOAD[: 100 - n % lengths] for n in range(COUNT)]

    def action() -> None:
        out: list[bytes] = []
        write_alike(out, head(), 1, 1, topic=b"t", payloads=payloads, start=0, stop=COUNT)
        b"".join(out)

    return best_ns(action)


SCENARIOS: Final[list[tuple[str, Callable[[], float]]]] = [
    ("decode PUBLISH, alike", decode),
    ("decode PUBLISH, 100 lengths", lambda: decode(lengths=99)),
    ("decode PUBLISH, 500 topics", lambda: decode(topics=500)),
    ("decode PUBLISH, with a key", lambda: decode(KEYED)),
    ("encode DELIVER, alike", encode_alike),
    ("encode DELIVER, 100 lengths", lambda: encode_alike(lengths=99)),
    ("encode DELIVER, one by one", encode_alone),
    ("encode DELIVER, with a key", lambda: encode_alone(KEYED)),
]


def main() -> None:
    """Print a row for each scenario."""
    compiled = not engine_module.__file__.endswith(".py")
    print(f"flow frames, {'compiled' if compiled else 'interpreted'}: ns per message, payload {len(PAYLOAD)} bytes")
    for name, scenario in SCENARIOS:
        print(f"  {name:40} {scenario():8.1f}")


if __name__ == "__main__":
    main()
