"""Encrypted values: only keyrings with the key read them, and swapped or changed values are detected."""

import base64
import subprocess
import sys
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.serve.console import payload
from punctual.client.errors import InvalidHeaderError
from punctual.client.requests import encrypted, schedule
from punctual.encryption import (
    ALGORITHM,
    ALGORITHM_HEADER,
    KEY_ID_HEADER,
    InvalidKeyError,
    Keyring,
    NotEncryptedError,
    TamperedError,
    UnknownKeyError,
    new_key,
)

OLD, NEW = new_key(), new_key()
HOUR = timedelta(hours=1)
RING = Keyring({"old": OLD, "new": NEW})


@dataclass
class Record:
    """A record as aiokafka gives it."""

    topic: str = "reminders"
    partition: int = 0
    offset: int = 7
    key: bytes | None = b"customer-4"
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass
class Confluent:
    """One as confluent-kafka does."""

    record: Record = field(default_factory=Record)

    def __getattr__(self, name: str) -> Any:
        return lambda: getattr(self.record, name)


def sealed(
    value: bytes = b"secret", ring: Keyring = RING, *, to: str = "reminders", key: bytes | None = b"customer-4"
) -> Record:
    encrypted, headers = ring.encrypt(value, to=to, key=key)
    return Record(topic=to, key=key, value=encrypted, headers=(("trace", b"1"), *headers))


@given(st.binary(max_size=200), st.text(min_size=1, max_size=20), st.none() | st.binary(max_size=20))
def test_an_encrypted_value_can_be_decrypted(value: bytes, to: str, key: bytes | None) -> None:
    record = sealed(value, to=to, key=key)
    assert RING.decrypt(record) == value
    assert record.value is not None
    assert len(record.value) == len(value) + 28


def test_it_says_how_and_by_which_key() -> None:
    assert sealed().headers[1:] == ((ALGORITHM_HEADER, b"A256GCM"), (KEY_ID_HEADER, b"new"))
    assert b"secret" not in (sealed().value or b"")
    assert sealed().value != sealed().value


def test_keys_change_while_messages_wait() -> None:
    before = sealed(ring=Keyring({"old": OLD}))
    assert RING.decrypt(before) == b"secret"
    assert Keyring({"old": OLD, "new": NEW}, primary="old").primary == "old"
    with pytest.raises(UnknownKeyError, match=r"reminders-0-7 is encrypted by the key 'old'; this keyring has new"):
        Keyring({"new": NEW}).decrypt(before)


@pytest.mark.parametrize(
    "changed",
    [
        {"topic": "refunds"},
        {"key": b"customer-5"},
        {"key": None},
        {"value": (sealed().value or b"")[:27]},
        {"headers": ((ALGORITHM_HEADER, b"A256GCM"), (KEY_ID_HEADER, b"old"))},
    ],
)
def test_swapped_values_are_noticed(changed: dict[str, Any]) -> None:
    with pytest.raises(TamperedError, match="was not encrypted by the key"):
        RING.decrypt(replace(sealed(), **changed))


@given(st.integers(0, 33), st.integers(1, 255))
def test_each_changed_byte_is_noticed(place: int, by: int) -> None:
    record = sealed()
    value = bytearray(record.value or b"")
    value[place] ^= by
    with pytest.raises(TamperedError):
        RING.decrypt(replace(record, value=bytes(value)))


def test_another_key_of_the_same_id_does_not_fit() -> None:
    with pytest.raises(TamperedError):
        Keyring({"new": OLD}).decrypt(sealed())


def test_a_null_key_and_an_empty_one_are_two() -> None:
    with pytest.raises(TamperedError):
        RING.decrypt(replace(sealed(key=None), key=b""))


def test_a_value_moved_to_another_topic_is_decrypted_by_its_destination() -> None:
    moved = replace(sealed(), topic="reminders-retry")
    assert RING.decrypt(moved, to="reminders") == b"secret"


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ((), "encryption is there 0 times"),
        (((ALGORITHM_HEADER, b"A256GCM"),), "encryption-key-id is there 0 times"),
        (((ALGORITHM_HEADER, b"none"), (KEY_ID_HEADER, b"new")), "its algorithm is 'none', not A256GCM"),
        (((ALGORITHM_HEADER, b"A256GCM"),) * 2, "encryption is there 2 times"),
    ],
)
def test_a_plain_value_is_not_mistaken_for_an_encrypted_one(headers: tuple[tuple[str, bytes], ...], why: str) -> None:
    record = Record(value=b"plain", headers=headers)
    with pytest.raises(NotEncryptedError, match=why):
        RING.decrypt(record)
    assert RING.decrypt(record, allow_plain=True) == b"plain"


def test_null_stays_null() -> None:
    assert RING.decrypt(Record()) is None
    asked = encrypted(schedule("reminders", None, after=HOUR), RING)
    assert (asked.value, [name for name, _ in asked.headers if name.startswith("encryption")]) == (None, [])


def test_records_of_any_client_are_taken() -> None:
    assert RING.decrypt(Confluent(sealed())) == b"secret"
    record = sealed()
    assert RING.decrypt(replace(record, headers=dict(record.headers))) == b"secret"  # type: ignore[arg-type] # Faust's


def test_a_request_has_no_part_of_the_value_in_clear() -> None:
    asked = encrypted(schedule("reminders", {"card": "4111"}, after=HOUR, key="customer-4"), RING)
    assert b"4111" not in b"".join([asked.value or b"", *(value or b"" for _, value in asked.headers)])
    delivered = Record(value=asked.value, headers=asked.headers)
    assert RING.decrypt(delivered) == b'{"card":"4111"}'


def test_no_value_is_encrypted_twice() -> None:
    with pytest.raises(InvalidHeaderError, match="this client encrypts"):
        encrypted(schedule("reminders", b"", after=HOUR, headers={KEY_ID_HEADER: "new"}), RING)


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({}, "There is no key"),
        ({"a": b"short"}, "'a' is not 32 bytes"),
        ({"a b": OLD}, "'a b' is no key id"),
        ({"": OLD}, "'' is no key id"),
    ],
)
def test_an_invalid_key_is_an_error(keys: dict[str, bytes], why: str) -> None:
    with pytest.raises(InvalidKeyError, match=why):
        Keyring(keys)


def test_the_primary_key_is_one_of_the_keys() -> None:
    with pytest.raises(InvalidKeyError, match="primary='x' is none of the keys new"):
        Keyring({"new": NEW}, primary="x")


def test_a_keyring_is_read_from_a_text_and_shows_no_key() -> None:
    text = f"old:{base64.b64encode(OLD).decode()},\nnew:{base64.b64encode(NEW).decode()}\n"
    ring = Keyring.parse(text)
    assert ring.decrypt(sealed()) == b"secret"
    assert repr(ring) == "<Keyring old, new; new encrypts>"


KEY = base64.b64encode(bytes(range(1, 33))).decode()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (KEY, r"Key 1 is not of the form id:base64\."),
        (f"{KEY},b:{KEY}", "Key 1 is not of the form"),
        (f"b:{KEY},{KEY}", "Key 2 is not of the form"),
        (f"x;{KEY}", "Key 1 is not of the form"),
        (f"x={KEY}", "Key 1 is not of the form"),
        (f"{KEY}:x", "Key 1 is not of the form"),
        (f"{KEY.translate(str.maketrans('+=', 'AA'))}:x", "Key 1 is not of the form"),
        (f"x:!{KEY}", "Key 1 is not of the form"),
        (f"x:é{KEY}", "Key 1 is not of the form"),
        (f"x:{KEY[:-4]}", "Key 1 is not 32 bytes"),
        ("", "Key 1 is not of the form"),
    ],
)
def test_an_error_of_a_text_shows_no_part_of_a_key(text: str, why: str) -> None:
    with pytest.raises(InvalidKeyError, match=why) as caught:
        Keyring.parse(text)
    shown = f"{caught.value} {caught.value.__cause__} {caught.value.__context__}"
    assert not [KEY[place : place + 8] for place in range(len(KEY) - 7) if KEY[place : place + 8] in shown]


def test_without_the_extra_it_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from punctual.encryption import Keyring, EncryptionUnavailableError, new_key\n"
        "import punctual.client.client\n"
        "try:\n    Keyring({'a': new_key()})\n"
        "except EncryptionUnavailableError as error:\n    print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "--find-links WHEELS 'punctual-kafka[encryption]'" in said


def test_the_console_tells_the_key_instead_of_noise() -> None:
    record = sealed()
    headers = [(name, (value or b"").decode()) for name, value in record.headers]
    shown = payload.of({"value": {"base64": base64.b64encode(record.value or b"").decode()}, "headers": headers}, "")
    assert shown is not None
    assert (shown.text, shown.views) == (f"encrypted with the key new ({ALGORITHM})", ["text"])


def test_the_format_is_frozen() -> None:
    """As docs/how-to/encrypt.md has it, for other languages: made there with AES-GCM alone."""
    value = bytes.fromhex("0000000000000000000000007dd9d6acd058199105ff2dcdf44f7ff2ee5eb3195141")
    headers = ((ALGORITHM_HEADER, b"A256GCM"), (KEY_ID_HEADER, b"2026-11"))
    assert Keyring({"2026-11": bytes(range(32))}).decrypt(Record(value=value, headers=headers)) == b"secret"
