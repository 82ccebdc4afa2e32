"""Valid bytes with a few of them changed, for the fuzz tests of every protocol."""

import os
import random
from typing import Final

from support.thorough import examples

# Of each fuzz test. `make fuzz` plays many more than an ordinary run can wait for, and others each time.
ROUNDS: Final = int(os.environ.get("SLUICEGATE_FUZZ_ROUNDS", examples(10_000)))
SEED: Final = int(os.environ.get("SLUICEGATE_FUZZ_SEED", "0"))
CHANGES_MAX: Final = 4


def chance_of(test: int) -> random.Random:
    """Return what a fuzz test draws from: the same in every run, unless a seed was given."""
    return random.Random(SEED + test)


def mutated(chance: random.Random, packets: bytes) -> bytes:
    """Change, cut, insert or repeat some bytes."""
    raw = bytearray(packets)
    for _ in range(chance.randint(1, CHANGES_MAX)):
        at = chance.randrange(len(raw)) if raw else 0
        match chance.randrange(5):
            case 0 if raw:
                raw[at] = chance.randrange(256)
            case 1 if raw:
                raw[at] ^= 1 << chance.randrange(8)
            case 2:
                del raw[at : at + chance.randint(1, 4)]
            case 3:
                raw[at:at] = chance.randbytes(chance.randint(1, 4))
            case _:
                raw[at:at] = raw[at : at + chance.randint(1, 30)]
    return bytes(raw)


def spoiled(chance: random.Random, frames: list[bytes]) -> list[bytes]:
    """Break some of the frames, mostly one that is not the first: what stands before it is whole."""
    broken = list(frames)
    for _ in range(1 if chance.random() < 0.8 else 2):
        at = chance.randrange(len(broken))
        broken[at] = half_text(chance, broken[at]) if chance.random() < 0.4 else mutated(chance, broken[at])
    return broken


def half_text(chance: random.Random, frame: bytes) -> bytes:
    """Put a byte that is no UTF-8 into one of the texts: the frame is whole, and its lengths are right."""
    places = [at for at in range(len(frame)) if frame[at] in b"kvt"]
    if not places:
        return mutated(chance, frame)
    at = chance.choice(places)
    return frame[:at] + b"\xff" + frame[at + 1 :]
