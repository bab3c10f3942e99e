"""Records of a fenced producer are found in log segments."""

from pathlib import Path

from app.kafka import Batch
from tests.chaos.fencing import accepted_from_fenced


def append(logs: Path, partition: str, epoch: int, at_ms: int) -> None:
    """Append a batch of two records of a transaction to a partition's segment."""
    segment = logs / f"mine-{partition}" / "00000000000000000000.log"
    segment.parent.mkdir(exist_ok=True)
    batch = Batch(transactional=True)
    for _ in range(2):
        batch.append(at_ms, b"key", b"value")
    with segment.open("ab") as file:
        file.write(batch.build(7, epoch, 0))


def test_records_of_a_producer_before_its_successor_begins_are_valid(tmp_path: Path) -> None:
    append(tmp_path, "out-0", 0, 1_000)
    append(tmp_path, "out-0", 1, 2_000)
    append(tmp_path, "changelog-3", 1, 3_000)
    assert accepted_from_fenced([tmp_path], "mine") == 0


def test_its_later_records_in_any_partition_are_counted(tmp_path: Path) -> None:
    append(tmp_path, "changelog-3", 1, 2_000)
    append(tmp_path, "out-0", 0, 2_001)
    assert accepted_from_fenced([tmp_path], "mine") == 2
    assert accepted_from_fenced([tmp_path], "theirs") == 0
