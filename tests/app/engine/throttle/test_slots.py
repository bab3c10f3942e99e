"""Slots are dealt out to partitions, and never to two workers."""

from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.throttle.allowance import Slots


@settings(deadline=None)
@given(st.integers(1, 40), st.data())
def test_every_slot_is_exactly_one_workers(partitions: int, data: st.DataObject) -> None:
    owners = data.draw(st.lists(st.integers(0, 2), min_size=partitions, max_size=partitions))
    begin = data.draw(st.integers(0, 1 << 40))
    end = begin + data.draw(st.integers(0, 1_000))
    workers = [Slots(partitions) for _ in range(3)]
    for number, slots in enumerate(workers):
        slots.own(partition for partition, owner in enumerate(owners) if owner == number)

    assert sum(slots.between(begin, end) for slots in workers) == end - begin
    for number, slots in enumerate(workers):
        own = [slot for slot in range(begin, end) if owners[slot % partitions] == number]
        assert slots.between(begin, end) == len(own)
        if own:
            assert slots.following(begin) == own[0]


def test_a_worker_without_partitions_has_no_slot() -> None:
    assert Slots(4).following(7) is None
    assert Slots(4).between(0, 100) == 0
