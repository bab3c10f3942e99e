"""The simulated disk behaves as RocksDB does, as far as tables/ uses it."""

import random
from pathlib import Path
from typing import Any

import pytest
import rocksdict

from tables.database import write_options
from tables.rocksdb_options import rocksdb_options
from tests.simulation.disk import Disks

_KEYS = [bytes([a, b]) for a in b"\x00\x01bim" for b in range(6)]


def _options(module: Any, upper: bytes | None) -> Any:
    options = module.ReadOptions()
    if upper is not None:
        options.set_iterate_upper_bound(upper)
    return options


@pytest.mark.parametrize("seed", range(5))
def test_reads_and_writes_are_the_same_in_any_order(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(seed)  # noqa: S311 - any order will do
    disks = Disks()
    real, fake = rocksdict.Rdict(str(tmp_path / "real"), rocksdb_options()), disks.Rdict("a/fake", None)
    writes = write_options()
    for turn in range(300):
        batches = (rocksdict.WriteBatch(raw_mode=True), disks.WriteBatch(raw_mode=True))
        for _ in range(rnd.randrange(5)):
            key, value = rnd.choice(_KEYS), b"%d" % turn if rnd.random() < 0.6 else None
            for batch in batches:
                batch.delete(key) if value is None else batch.put(key, value)
        real.write(batches[0], writes)
        fake.write(batches[1], disks.WriteOptions())
        key, upper = rnd.choice(_KEYS), rnd.choice([None, *_KEYS])
        wanted = [rnd.choice(_KEYS) for _ in range(3)]
        theirs, ours = _options(rocksdict, upper), _options(disks, upper)

        assert fake.get(key) == real.get(key)
        assert fake.get(wanted) == real.get(wanted)
        assert list(fake.items(from_key=key, read_opt=ours)) == list(real.items(from_key=key, read_opt=theirs))
        assert list(fake.keys(from_key=key, read_opt=ours)) == list(real.keys(from_key=key, read_opt=theirs))
        if rnd.random() < 0.05:
            real.close()
            fake.close()
            real = rocksdict.Rdict(str(tmp_path / "real"), rocksdb_options())
            fake = disks.Rdict("a/fake", None)
    assert dict(fake.items()) == dict(real.items())
    real.close()


def test_an_iterator_shows_the_content_at_its_start(tmp_path: Path) -> None:
    disks = Disks()
    real, fake = rocksdict.Rdict(str(tmp_path / "real"), rocksdb_options()), disks.Rdict("a/fake", None)
    found = []
    for database, module in ((real, rocksdict), (fake, disks)):
        database.write(_batch(module, a=b"1", b=b"2"), module.WriteOptions())
        items = database.items(from_key=b"")
        first = next(items)
        database.write(_batch(module, b=None, c=b"3"), module.WriteOptions())
        found.append([first, *items])
    real.close()

    assert found[0] == found[1]


def test_a_database_is_open_once_until_its_process_dies() -> None:
    disks = Disks()
    disks.Rdict("a/fake", None)
    with pytest.raises(OSError, match="While lock file"):
        disks.Rdict("a/fake", None)

    disks.unlock("a")
    disks.Rdict("a/fake", None)


def test_a_disk_loses_its_last_writes_or_comes_back_as_it_was() -> None:
    disks = Disks()
    database = disks.Rdict("a/fake", None)
    for number in range(4):
        database.write(_batch(disks, **{f"k{number}": b"v"}), disks.WriteOptions())
    disks.unlock("a")

    disks.lose("a", 1)
    assert sorted(disks.databases["a/fake"].values) == [b"k0", b"k1", b"k2"]
    disks.rewind("a", 0.34)
    assert sorted(disks.databases["a/fake"].values) == [b"k0"]
    disks.wipe("a")
    assert not disks.databases


def _batch(module: Any, **values: bytes | None) -> Any:
    batch = module.WriteBatch(raw_mode=True)
    for name, value in values.items():
        if value is None:
            batch.delete(name.encode())
        else:
            batch.put(name.encode(), value)
    return batch
