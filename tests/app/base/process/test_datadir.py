"""A data directory belongs to one process at a time, and to one installation for its life."""

import errno
from pathlib import Path

import pytest

from app.base.errors import DataDirectoryForeign, DataDirectoryTaken, DataDirectoryUnusable
from app.base.process.datadir import belongs, check, claim, member_id

FIRST, NEXT = "delay-delays-changelog", "delay-p24-delays-changelog"


def test_a_directory_is_used_by_one_process_at_a_time(tmp_path: Path) -> None:
    data = tmp_path / "a" / "b"
    with claim(data), pytest.raises(DataDirectoryTaken, match=f"{data} is in use by another process"):
        claim(data)
    claim(data).close()


def test_a_directory_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataDirectoryUnusable, match=r"cannot be used: .*Not a directory.*No data is lost"):
        claim(tmp_path / "file" / "data")


def test_a_directory_that_is_removed_or_replaced_is_missed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with claim(data) as lock:
        check(data, lock)
        data.rename(tmp_path / "away")
        with pytest.raises(DataDirectoryUnusable, match="No such file"):
            check(data, lock)
        with claim(data), pytest.raises(DataDirectoryUnusable, match="another directory has replaced it"):
            check(data, lock)


def test_a_member_id_stays(tmp_path: Path) -> None:
    first = member_id(tmp_path)

    assert len(first) == 32
    assert member_id(tmp_path) == first
    assert {path.name for path in tmp_path.iterdir()} == {"member-id"}


def test_a_full_disk_leaves_no_empty_member_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "member-id").touch()
    assert member_id(tmp_path)

    (tmp_path / "member-id").unlink()

    def full(path: Path, *_: str) -> None:
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        with pytest.raises(DataDirectoryUnusable, match="No space left"):
            member_id(tmp_path)
    assert not (tmp_path / "member-id").exists()
    assert len(member_id(tmp_path)) == 32


def test_a_directory_belongs_to_the_installation_that_used_it_first(tmp_path: Path) -> None:
    belongs(tmp_path, "delay", "cluster-1", FIRST)
    belongs(tmp_path, "delay", "cluster-1", FIRST)
    for app_id, cluster_id in (("delay", "cluster-2"), ("other", "cluster-1")):
        with pytest.raises(DataDirectoryForeign) as raised:
            belongs(tmp_path, app_id, cluster_id, FIRST)
        assert str(raised.value) == (
            f"the data directory {tmp_path} belongs to delay on cluster cluster-1, but this worker serves {app_id} "
            f"on cluster {cluster_id}. Give this worker its own data directory (DATADIR or PORT). If the other "
            "installation no longer exists, move this directory away."
        )


def databases(path: Path) -> list[str]:
    return sorted(found.name for found in path.rglob("delays-*.db"))


def with_databases(path: Path) -> None:
    for number in range(2):
        (path / "v1/tables" / f"delays-{number}.db").mkdir(parents=True)


def test_databases_of_before_the_number_of_partitions_changed_are_removed(tmp_path: Path) -> None:
    with_databases(tmp_path)
    belongs(tmp_path, "delay", "cluster-1", FIRST)
    assert databases(tmp_path) == ["delays-0.db", "delays-1.db"]

    belongs(tmp_path, "delay", "cluster-1", NEXT)
    assert databases(tmp_path) == []

    with_databases(tmp_path)
    belongs(tmp_path, "delay", "cluster-1", NEXT)
    assert databases(tmp_path) == ["delays-0.db", "delays-1.db"]


def test_databases_of_an_attempt_that_was_given_up_are_removed(tmp_path: Path) -> None:
    belongs(tmp_path, "delay", "cluster-1", NEXT)
    with_databases(tmp_path)
    belongs(tmp_path, "delay", "cluster-1", FIRST)
    assert databases(tmp_path) == []
