"""Keys on disk: the first receipt of a day counts, an answer belongs to its receipt, all is forgotten in time."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.serve.keys.receipt import Answered, GivenAnswer, Known, Receipt
from app.serve.keys.store import DAY_MS, KeyStore, Written

T = 1_800_000_000_000
KEY, OTHER = b"k" * 32, b"o" * 32
FIRST, SECOND = Receipt(b"body", "gateway-a", T), Receipt(b"body", "gateway-b", T + 5)
DONE = GivenAnswer(201, '{"id":"1"}', {"Location": "/api/v1/messages/1"})
HOUR_MS = 3_600_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KeyStore]:
    store = KeyStore(tmp_path / "keys")
    yield store
    store.close()


def take(store: KeyStore, *said: Receipt | Answered, at_ms: int = T, key: bytes = KEY, offset: int = 0) -> None:
    store.take(0, [Written(key, at_ms, one) for one in said], offset + len(said))


def test_of_two_receipts_the_first_one_counts(store: KeyStore) -> None:
    take(store, FIRST, SECOND)

    assert store.known(KEY, T) == Known.of(FIRST, T)


def test_the_first_receipt_counts_whenever_the_second_is_read(store: KeyStore) -> None:
    take(store, FIRST)
    take(store, SECOND, offset=1)

    assert store.known(KEY, T) == Known.of(FIRST, T)


def test_an_answer_belongs_to_its_receipt(store: KeyStore) -> None:
    take(store, FIRST, SECOND, Answered("gateway-b", T + 5, GivenAnswer(500)), Answered("gateway-a", T, DONE))

    known = store.known(KEY, T)
    assert known is not None
    assert known.answer == DONE


def test_the_first_answer_stays(store: KeyStore) -> None:
    take(store, FIRST, Answered("gateway-a", T, DONE), Answered("gateway-a", T, GivenAnswer(202)))

    known = store.known(KEY, T)
    assert known is not None
    assert known.answer == DONE


def test_a_key_is_new_after_a_day(store: KeyStore) -> None:
    take(store, FIRST, at_ms=T)
    assert store.known(KEY, T + DAY_MS - 1) is not None
    assert store.known(KEY, T + DAY_MS) is None

    later = Receipt(b"another", "gateway-b", T + DAY_MS)
    take(store, later, at_ms=T + DAY_MS, offset=1)

    assert store.known(KEY, T + DAY_MS) == Known.of(later, T + DAY_MS)


def test_expired_keys_are_removed_and_later_ones_are_not(store: KeyStore) -> None:
    take(store, FIRST, at_ms=T)
    take(store, FIRST, at_ms=T + HOUR_MS, key=OTHER, offset=1)
    later = Receipt(b"another", "gateway-b", T + DAY_MS)
    take(store, later, at_ms=T + DAY_MS, offset=2)

    assert store.forget(T + DAY_MS + HOUR_MS + 1) == 0
    assert store.forget(T + DAY_MS + 2 * HOUR_MS + 1) == 1
    assert store.forget(T + DAY_MS + 2 * HOUR_MS + 1) == 0

    assert store.known(OTHER, T) is None
    assert store.known(KEY, T + DAY_MS) == Known.of(later, T + DAY_MS)


def test_keys_that_were_read_are_known_after_a_restart(tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "keys")
    assert store.next_offset(0) is None
    take(store, FIRST, offset=41)
    store.close()

    store = KeyStore(tmp_path / "keys")

    assert store.next_offset(0) == 42
    assert store.known(KEY, T) == Known.of(FIRST, T)
    store.close()


def test_keys_accepted_without_the_topic_are_owed_until_all_are_written(store: KeyStore) -> None:
    store.accept(KEY, FIRST)
    owed = store.owed(10)
    assert [known.records[0] for _, known in owed] == [FIRST]

    store.answer(KEY, Answered("gateway-a", T, DONE), owed=True)
    store.paid(owed)
    ((digest, known),) = store.owed(10)
    assert (digest, known.records[1]) == (KEY, Answered("gateway-a", T, DONE))

    store.paid([(digest, known)])
    assert store.owed(10) == []


def test_a_key_accepted_here_counts_here_although_another_gateway_was_first_in_the_topic(store: KeyStore) -> None:
    store.accept(KEY, FIRST)
    store.answer(KEY, Answered("gateway-a", T, DONE), owed=True)

    take(store, SECOND, Answered("gateway-b", T + 5, GivenAnswer(201)), at_ms=T + 1_000)

    known = store.known(KEY, T + 1_000)
    assert known is not None
    assert (known.gateway, known.answer) == ("gateway-a", DONE)


def test_a_damaged_store_is_read_again_from_the_topic(tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "keys")
    take(store, FIRST)
    store.close()
    (tmp_path / "keys" / "CURRENT").write_text("nonsense", "utf-8")

    store = KeyStore(tmp_path / "keys")

    assert store.next_offset(0) is None
    store.close()
