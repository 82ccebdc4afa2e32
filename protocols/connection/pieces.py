"""Large data that comes in pieces, which are kept as they come and joined once."""

from typing import Final

SHORT_BYTES: Final = 1024  # what comes behind so short a piece is put to it: objects for single bytes would add up


def put_to(pieces: list[bytes], piece: bytes) -> None:
    """Put what has come to what came before it."""
    if pieces and len(pieces[-1]) < SHORT_BYTES:
        pieces[-1] += piece
    else:
        pieces.append(piece)
