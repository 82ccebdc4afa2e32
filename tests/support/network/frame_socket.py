"""The socket of a flow connection or link that keeps the frames that are written to it."""

from support.flow.golden import AnyFrame, decoded
from support.network.full_socket import FullSocket


class FrameSocket(FullSocket):
    """`take` returns what was written since the last time."""

    def __init__(self) -> None:
        self._written = b""

    def write(self, data: bytes) -> None:
        self._written += data

    def write_all(self, buffers: list[bytes]) -> None:
        self._written += b"".join(buffers)

    def take(self) -> list[AnyFrame]:
        """Return the frames, in order."""
        data, self._written = self._written, b""
        frames: list[AnyFrame] = []
        while data:
            size = 4 + int.from_bytes(data[:4], "big")
            frames.append(decoded(data[:size]))
            data = data[size:]
        return frames
