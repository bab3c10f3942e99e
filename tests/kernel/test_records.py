"""The native extension unpacks the same records as aiokafka's reader, and refuses the same bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.batches import NOW, RECORDS, TIMES, Asked, garbled, plain, read, section
from tests.kernel.built import kernel, needed, patient

pytestmark = needed

_LONG = range(-(2**63), 2**63)


@patient
@given(RECORDS, st.integers(0, 2**40), st.one_of(st.just(-1), TIMES), st.integers(-2, 9))
def test_records_are_those_of_aiokafkas_reader(records: list[Asked], base: int, append_ms: int, start: int) -> None:
    raw, first_ms = section(records)

    found = kernel.unpack("in", 3, raw, len(records), base, first_ms, append_ms, base + start)

    expected = read(raw, len(records), base, first_ms, append_ms)
    assert [plain(one) for one in found] == [one for one in expected if one.offset >= base + start]


@patient
@given(
    st.one_of(garbled(RECORDS.map(lambda records: section(records)[0])), st.binary(max_size=60)),
    st.integers(0, 9),
    st.sampled_from([0, NOW, 2**63 - 1, -(2**63)]),
)
def test_bytes_that_aiokafkas_reader_refuses_are_refused(raw: bytes, count: int, first: int) -> None:
    try:
        expected = read(raw, count, first, first, -1)
    except Exception:  # noqa: BLE001 - whatever it says
        expected = None
    if expected is not None and any(one.offset not in _LONG or one.timestamp not in _LONG for one in expected):
        expected = None  # no broker has such offsets, and the kernel has no numbers for them

    if expected is None:
        with pytest.raises(ValueError, match="are not"):
            kernel.unpack("in", 3, raw, count, first, first, -1, -(2**63))
    else:
        found = kernel.unpack("in", 3, raw, count, first, first, -1, -(2**63))
        assert [plain(one) for one in found] == expected


def test_names_of_headers_that_are_no_text_are_kept_as_surrogates() -> None:
    raw, first_ms = section([Asked(NOW, b"k", None, [("näme", b"v"), ("x", None)])])
    raw = raw.replace("näme".encode(), b"n\xff\xfeme")

    (found,) = kernel.unpack("in", 3, raw, 1, 0, first_ms, -1, 0)

    assert found.headers == [("n\udcff\udcfeme", b"v"), ("x", None)]
    assert read(raw, 1, 0, first_ms, -1) == [plain(found)]
