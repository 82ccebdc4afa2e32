"""What the judge knows of an object store: which snapshots count, and where their content is."""

from typing import NamedTuple

import orjson

from simulation.replicas.servers.stream import ModelStream


class Verified(NamedTuple):
    """A snapshot that counts."""

    position: int
    name: str
    chunks: str  # subject of its content


def verified_snapshots(stream: ModelStream) -> list[Verified]:
    """Return the snapshots that count, the newest one last."""
    found = {}
    for message in stream.messages.values():
        if ".M." in message.subject:
            said = orjson.loads(message.data)
            found[message.subject] = said if said["headers"].get("verified") == ["yes"] else None
    return sorted(
        Verified(int(said["name"].split(".")[2]), said["name"], f"$O.{said['bucket']}.C.{said['name']}")
        for said in found.values()
        if said is not None
    )


def maker_of_newest(stream: ModelStream) -> str:
    """Return the name of the replica whose snapshot was written to last, if it does not count; empty if it does."""
    newest = next(reversed(stream.messages.values()), None)
    if newest is None or ".C." not in newest.subject:
        return ""
    return newest.subject.split(".C.")[1].split(".")[3]
