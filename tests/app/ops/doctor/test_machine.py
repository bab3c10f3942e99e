"""The facts about this machine, with real files and locks."""

import os
from pathlib import Path

from app.base.process.datadir import claim
from app.ops.doctor.machine import look, user_of


def test_who_holds_a_data_directory_is_seen_without_taking_its_lock(tmp_path: Path) -> None:
    data = tmp_path / "data"
    lock = claim(data)
    assert user_of(data / "lock") == os.getpid()
    lock.close()
    assert user_of(data / "lock") == 0


def test_a_system_that_does_not_tell_of_locks_leaves_it_open(tmp_path: Path) -> None:
    assert user_of(tmp_path / "lock", tmp_path / "no-locks") is None


def test_a_directory_that_is_not_there_yet_is_judged_by_where_it_would_be(tmp_path: Path) -> None:
    found = look(tmp_path / "not" / "yet")
    assert (found.there, found.error) == (False, "")
    assert found.free > 0
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_its_place_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"")
    assert "is not a directory" in look(tmp_path / "data").error
