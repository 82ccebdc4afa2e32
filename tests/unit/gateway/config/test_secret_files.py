"""Files with a secret in their first line."""

from pathlib import Path

import pytest

from sluicegate.gateway.config.sections.security.secret_files import SECRET_BYTES_MAX, first_line


@pytest.mark.parametrize(
    ("content", "secret"),
    [
        (b"s3cret\n", "s3cret"),
        (b"s3cret", "s3cret"),
        (b" a b \r\nnot this\n", " a b "),
        ("ä\n".encode(), "ä"),
        (b"", ""),
    ],
)
def test_the_first_line_is_the_secret(tmp_path: Path, content: bytes, secret: str) -> None:
    file = tmp_path / "secret"
    file.write_bytes(content)
    assert first_line(file) == secret


def test_the_longest_secret_is_whole_and_a_longer_one_is_refused_and_not_cut(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("x" * SECRET_BYTES_MAX)
    assert first_line(file) == "x" * SECRET_BYTES_MAX
    file.write_text("x" * (SECRET_BYTES_MAX + 1))
    with pytest.raises(ValueError, match=r"the first line of .*token has more than 65536 bytes"):
        first_line(file)


def test_invalid_text_is_refused_without_showing_it(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"s3cret\xff\n")
    with pytest.raises(ValueError, match="is not UTF-8 text") as refused:
        first_line(file)
    assert "s3cret" not in str(refused.value)
    assert refused.value.__suppress_context__, "a log with the cause would have the bytes"
