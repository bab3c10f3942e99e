"""End-to-end encryption of values: the producer encrypts them, and only consumers with the key can decrypt them.

    keyring = Keyring({"2026-11": key})
    async with DelayClient("localhost:9092", encryption=keyring) as client:
        await client.delay("reminders", {"order": 42}, after=timedelta(minutes=15))
    ...
    value = keyring.decrypt(record)

The worker moves bytes: requests, changelog, databases, dead letters and deliveries have the encrypted value. The module
needs the extra `punctual-kafka[encryption]`. docs/how-to/encrypt.md explains the installation and the protection.

EncryptionError
├── EncryptionUnavailableError    the extra is not installed
├── InvalidKeyError               a key, or its id, is invalid
├── NotEncryptedError             the record's value is not encrypted, but must be
├── UnknownKeyError               it is encrypted with a key that this keyring does not have
└── TamperedError                 it was changed, or encrypted for another topic or record key
"""

import base64
import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from punctual.installing import install_command

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

#: Headers of a record with an encrypted value: the algorithm, by its name in RFC 7518 (JWA), and the key's id.
ALGORITHM_HEADER: Final = "encryption"
KEY_ID_HEADER: Final = "encryption-key-id"
#: AES-256 in GCM. The value is a nonce of 12 bytes, the ciphertext and a tag of 16 bytes.
ALGORITHM: Final = "A256GCM"

_KEY_BYTES, _NONCE_BYTES, _TAG_BYTES = 32, 12, 16
_KEY_ID = re.compile(r"[A-Za-z0-9._/-]{1,64}")
_PURPOSE = b"punctual encryption 1"
_NO_WORD = "Key {} is not of the form id:base64. An id is 1 to 64 of a-z A-Z 0-9 . _ / -, a key 32 bytes: new_key()."

RawHeader = tuple[str, bytes | None]


class EncryptionError(Exception):
    """A value cannot be encrypted or decrypted; the message says why, and what to do."""


class EncryptionUnavailableError(EncryptionError):
    """The extra is not installed."""

    def __init__(self) -> None:
        """Name the command that installs it."""
        command = install_command("punctual-kafka[encryption]")
        super().__init__(f"Encryption needs a library that is not installed. Install it: {command}.")


class InvalidKeyError(EncryptionError, ValueError):
    """A key, or its id, is invalid."""


class NotEncryptedError(EncryptionError):
    """The record's value is not encrypted, but must be."""

    def __init__(self, place: str, why: str) -> None:
        """Name the record, and why it counts as not encrypted."""
        super().__init__(
            f"The value of {place} is not encrypted ({why}). Any producer with Write on the topic can have sent it: do "
            "not process it, or give allow_plain=True while senders change over to encryption."
        )


class UnknownKeyError(EncryptionError):
    """The value is encrypted with a key that this keyring does not have."""

    def __init__(self, place: str, key_id: str, known: Iterable[str]) -> None:
        """Name the record, its key's id, and the ids of the known keys."""
        super().__init__(
            f"The value of {place} is encrypted by the key {key_id!r}; this keyring has {', '.join(sorted(known))}. "
            "Add the key: keys must be kept until the last message that was encrypted by them is delivered."
        )
        self.key_id = key_id


class TamperedError(EncryptionError):
    """The value was changed, or encrypted for another topic or record key."""

    def __init__(self, place: str, key_id: str, to: str) -> None:
        """Name the record, its key's id, and the expected destination."""
        super().__init__(
            f"The value of {place} was not encrypted by the key {key_id!r} for {to!r} and this record key: it was "
            "changed, taken from another record, or the key is another one with the same id. If the message was "
            "scheduled for another destination than this topic (a retry, a mirrored cluster), give that destination: "
            "decrypt(record, to=...)."
        )


def new_key() -> bytes:
    """Return a new random key of 32 bytes."""
    return os.urandom(_KEY_BYTES)


class Keyring:
    """Keys by their ids: one encrypts, all can decrypt. Immutable, and safe for any number of threads and tasks."""

    def __init__(self, keys: Mapping[str, bytes], primary: str | None = None) -> None:
        """Use keys of 32 random bytes; `primary` is the id of the key that encrypts, by default the last one.

        Ids go into headers unchanged: 1 to 64 of the characters a-z A-Z 0-9 . _ / -. Raises InvalidKeyError, or
        EncryptionUnavailableError.
        """
        for key_id, key in keys.items():
            if not _KEY_ID.fullmatch(key_id):
                raise InvalidKeyError(f"{key_id!r} is no key id: 1 to 64 of a-z A-Z 0-9 . _ / - are needed.")
            if len(key) != _KEY_BYTES:
                raise InvalidKeyError(f"The key {key_id!r} is not {_KEY_BYTES} bytes: make one with new_key().")
        if not keys:
            raise InvalidKeyError("There is no key: make one with new_key().")
        self.primary = list(keys)[-1] if primary is None else primary
        if self.primary not in keys:
            raise InvalidKeyError(f"primary={primary!r} is none of the keys {', '.join(sorted(keys))}.")
        self._ciphers = {key_id: _cipher(key) for key_id, key in keys.items()}

    @classmethod
    def parse(cls, text: str) -> "Keyring":
        """Parse a keyring from an environment variable or a file: `id:key`, in base64.

        Keys are separated by commas or white space; the last one encrypts. Raises InvalidKeyError, which shows no key.
        """
        keys = {}
        for place, word in enumerate(re.split(r"[,\s]+", text.strip()), 1):
            key_id, _, encoded = word.partition(":")
            # Any part of a word may be the key, so an error contains only its position.
            if not (encoded and _KEY_ID.fullmatch(key_id)):
                raise InvalidKeyError(_NO_WORD.format(place))
            try:
                keys[key_id] = base64.b64decode(encoded, validate=True)
            except ValueError:
                raise InvalidKeyError(_NO_WORD.format(place)) from None
            if len(keys[key_id]) != _KEY_BYTES:
                raise InvalidKeyError(f"Key {place} is not {_KEY_BYTES} bytes: make one with new_key().")
        return cls(keys)

    def __repr__(self) -> str:
        """Return the ids, without the keys."""
        return f"<Keyring {', '.join(self._ciphers)}; {self.primary} encrypts>"

    def encrypt(self, value: bytes, *, to: str, key: bytes | None) -> tuple[bytes, tuple[RawHeader, RawHeader]]:
        """Return a value encrypted for the destination `to` and the record key `key`, and the headers for it."""
        nonce = os.urandom(_NONCE_BYTES)
        sealed = self._ciphers[self.primary].encrypt(nonce, value, _bound(self.primary, to, key))
        return nonce + sealed, ((ALGORITHM_HEADER, ALGORITHM.encode()), (KEY_ID_HEADER, self.primary.encode()))

    def decrypt(self, record: Any, *, to: str | None = None, allow_plain: bool = False) -> bytes | None:
        """Return the decrypted value of a received record; null stays None.

        `record`: from aiokafka, confluent-kafka, a queue of Punctual's, or the `message` of a Faust event. `to`: the
        requested destination, by default the record's topic. With `allow_plain`, a value that is not encrypted
        is returned unchanged. Raises NotEncryptedError, UnknownKeyError or TamperedError.
        """
        topic, key, value = _field(record, "topic"), _field(record, "key"), _field(record, "value")
        place = f"{topic}-{_field(record, 'partition')}-{_field(record, 'offset')}"
        headers = _headers(_field(record, "headers"))
        why = _why_plain(headers)
        if value is None or (why and allow_plain):
            return None if value is None else bytes(value)
        if why:
            raise NotEncryptedError(place, why)
        key_id = headers[KEY_ID_HEADER][0].decode("ascii", "replace")
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise UnknownKeyError(place, key_id, self._ciphers)
        return _opened(cipher, bytes(value), key_id, str(topic) if to is None else to, key, place)


def _opened(cipher: "AESGCM", value: bytes, key_id: str, to: str, key: bytes | None, place: str) -> bytes:
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - an extra: only who has a key needs it

    if len(value) < _NONCE_BYTES + _TAG_BYTES:
        raise TamperedError(place, key_id, to)
    try:
        return cipher.decrypt(value[:_NONCE_BYTES], value[_NONCE_BYTES:], _bound(key_id, to, key))
    except InvalidTag as error:
        raise TamperedError(place, key_id, to) from error


def _cipher(key: bytes) -> "AESGCM":
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - as above
    except ImportError as error:
        raise EncryptionUnavailableError from error
    return AESGCM(key)


def _bound(key_id: str, to: str, key: bytes | None) -> bytes:
    """Return the data that a value is bound to, and can only be decrypted with. Each part follows its length."""
    parts = (_PURPOSE, ALGORITHM.encode(), key_id.encode(), to.encode(), b"" if key is None else b"\x01" + key)
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def _field(record: Any, name: str) -> Any:
    value = getattr(record, name)
    return value() if callable(value) else value  # confluent-kafka has methods


def _headers(headers: Any) -> dict[str, list[bytes]]:
    """Return headers by name, from any client's form."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
    values: dict[str, list[bytes]] = {}
    for name, value in pairs:
        if name in (ALGORITHM_HEADER, KEY_ID_HEADER):
            values.setdefault(name, []).append(bytes(value or b""))
    return values


def _why_plain(headers: Mapping[str, list[bytes]]) -> str:
    """Return why a record does not count as encrypted; empty if it does."""
    for name in (ALGORITHM_HEADER, KEY_ID_HEADER):
        if len(headers.get(name, ())) != 1:
            return f"the header {name} is there {len(headers.get(name, ()))} times"
    algorithm = headers[ALGORITHM_HEADER][0].decode("ascii", "replace")
    return "" if algorithm == ALGORITHM else f"its algorithm is {algorithm!r}, not {ALGORITHM}"
