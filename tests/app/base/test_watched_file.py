"""A file that is read again when it changes, and when it could not be read."""

import logging
from pathlib import Path

import pytest

from app.base.watched_file import WatchedFile


def watched(path: Path) -> WatchedFile[list[str]]:
    return WatchedFile("DELAY_FILE", str(path), lambda lines: [line for _, line in lines], "lines are used")


def errors(caplog: pytest.LogCaptureFixture) -> int:
    return sum(record.levelno == logging.ERROR for record in caplog.records)


def test_a_file_that_could_not_be_read_is_read_as_soon_as_it_can_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("revoked", "utf-8")
    file = watched(path)
    (tmp_path / "new").write_text("kept", "utf-8")
    (tmp_path / "new").replace(path)

    def forbidden(*_: object) -> str:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_text", forbidden)
        assert file.content(2) == file.content(4) == ["revoked"]
    assert "DELAY_FILE has changed, but is not valid: it cannot be read: Permission denied" in caplog.text
    assert file.content(6) == ["kept"]
    assert errors(caplog) == 1


def test_each_disappearance_of_a_file_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, away = tmp_path / "file", tmp_path / "away"
    path.write_text("a", "utf-8")
    file = watched(path)
    for turn in range(2):
        path.rename(away)
        assert file.content(10 * turn + 2) == ["a"]
        assert errors(caplog) == turn + 1
        away.rename(path)
        assert file.content(10 * turn + 4) == ["a"]


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a\u2028b\x85c\x0bd\r\n# e\nf", "utf-8")

    assert watched(tmp_path / "file").content(2) == ["a\u2028b\x85c\x0bd", "f"]
