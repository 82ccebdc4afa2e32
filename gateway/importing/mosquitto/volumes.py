"""Where folders of a container are on this machine, as its volumes say."""

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

# Options of mosquitto.conf whose values are paths of files or folders.
PATHS: Final = frozenset(
    {
        "acl_file", "bridge_cafile", "bridge_certfile", "bridge_keyfile", "cafile", "certfile", "crlfile",
        "include_dir", "keyfile", "password_file",
    }
)  # fmt: skip


class Volume(NamedTuple):
    """A folder or file of this machine, and its place in the container."""

    here: PurePosixPath
    inside: PurePosixPath


def parse_volume(text: str) -> Volume:
    """Return a volume as `docker run --volume` takes it: HERE:INSIDE, or HERE:INSIDE:ro. Raises ValueError."""
    here, *rest = text.split(":")
    if not here or len(rest) not in (1, 2) or not rest[0].startswith("/"):
        raise ValueError(f"{text!r} is no volume; allowed: HERE:INSIDE, such as ./config:/mosquitto/config")
    return Volume(PurePosixPath(here), PurePosixPath(rest[0]))


def path_here(path: str, volumes: Sequence[Volume]) -> str:
    """Return where a path of the container is on this machine: in the volume that is nearest to it, if in any."""
    around = [volume for volume in volumes if PurePosixPath(path).is_relative_to(volume.inside)]
    if not around:
        return path
    volume = max(around, key=lambda each: len(each.inside.parts))
    return str(volume.here / PurePosixPath(path).relative_to(volume.inside))
