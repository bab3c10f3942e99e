"""The kernel's batches are those of aiokafka's builder, byte for byte, and hold as much."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.batches import CONTENT, NOW, RECORDS, Asked, theirs, unpacked
from tests.kernel.built import kernel, needed, patient

pytestmark = needed

_LIMITS = st.sampled_from([0, 100, 200, 1000, 1 << 20])


@patient
@given(RECORDS, _LIMITS, st.booleans())
def test_a_batch_equals_the_one_that_aiokafka_builds(records: list[Asked], limit: int, transactional: bool) -> None:  # noqa: FBT001
    builder, other = kernel.Builder(limit, transactional=transactional), theirs(limit, transactional=transactional)

    for record in records:
        fits = other.append(builder.count, *record) is not None
        assert builder.append(*record) == fits

    for numbers in [(-1, -1, -1), (2**62, 2**15 - 1, 2**31 - 1)]:
        other.set_producer_state(*numbers)
        assert builder.build(*numbers) == bytes(other.build())


@patient
@given(st.dictionaries(st.binary(max_size=20), CONTENT, max_size=9), _LIMITS)
def test_records_of_key_and_value_are_taken_as_far_as_they_fit(records: dict[bytes, bytes | None], limit: int) -> None:
    builder, other, expected = kernel.Builder(limit, transactional=False), theirs(limit), 0
    for key, value in records.items():
        if other.append(expected, NOW, key, value, []) is None:
            break
        expected += 1
    left = iter(records.items())

    assert builder.extend(NOW, left) == expected == builder.count

    assert len(list(left)) == max(0, len(records) - expected - 1)  # the records that did not fit remain
    if records:
        other.set_producer_state(1, 2, 3)
        assert builder.build(1, 2, 3) == bytes(other.build())


def test_what_makes_the_records_may_look_at_the_batch() -> None:
    builder = kernel.Builder(1 << 20, transactional=False)

    def records() -> Iterator[tuple[bytes, bytes | None]]:
        for _ in range(3):
            yield b"%d" % builder.count, None

    assert builder.extend(NOW, records()) == 3
    assert b"\x022\x01" in builder.build(-1, -1, -1)


def test_an_invalid_type_is_refused_and_leaves_the_batch_unchanged() -> None:
    builder = kernel.Builder(1 << 20, transactional=False)
    builder.append(NOW, b"k", b"v", [])
    before = builder.build(1, 1, 1)

    with pytest.raises(TypeError):
        builder.append(NOW, "k", None, [])
    with pytest.raises(TypeError):
        builder.append(NOW, b"k", None, [("name", "text")])
    with pytest.raises(TypeError):
        builder.extend(NOW, [b"kv"])
    with pytest.raises(UnicodeEncodeError):
        builder.append(NOW, b"k", None, [("n\udcff", b"")])

    assert builder.build(1, 1, 1) == before


@pytest.mark.parametrize("skipped", [0, 1, 3, 4])
@pytest.mark.parametrize("limit", [0, 300, 1 << 20])
def test_records_packed_by_the_kernel_are_accepted_as_they_are(skipped: int, limit: int) -> None:
    asked = [Asked(NOW, None, None, [("delay-to", b"orders"), ("delay-at", b"%d" % NOW)])] * 3
    rules = kernel.Rules("in", 3, 0, ["in"], 4, 1 << 20)
    *_, packed, _ = kernel.requests(rules, unpacked(asked), 0, 3, 0, {"orders"}, -1, NOW, NOW, NOW, 1 << 20)
    builders = [kernel.Builder(limit, transactional=False) for _ in range(2)]

    taken = [
        builder.extend(NOW, records, skipped) for builder, records in zip(builders, (packed, list(packed)), strict=True)
    ]

    assert len(packed) == len(list(packed)) == 3
    assert taken[0] == taken[1] <= max(0, 3 - skipped)
    assert skipped >= 3 or taken[0]
    assert builders[0].build(1, 2, 3) == builders[1].build(1, 2, 3)
    with pytest.raises(IndexError):
        packed[3]
