"""Dialects of inputs that belong to a namespace: their requests can only concern the namespace's ids."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial

from punctual.contract import headers as names
from punctual.contract.dialects.dialects import Dialect
from punctual.contract.namespaces import Namespaces
from punctual.contract.record import Record
from punctual.contract.request import Headers, Reason, Refusal, Request


@lru_cache(maxsize=1_000)
def with_namespace(dialect: Dialect, namespaces: Namespaces, namespace: str) -> Dialect:
    """Return a dialect whose requests and dead letters have ids with the namespace's full name."""

    def full(id_: str) -> str:
        return namespaces.full(namespace, id_)

    kept = partial(_kept, dialect.kept, full, f"{namespace}/".encode())
    return replace(dialect, decode=partial(_decode, dialect.decode, full), kept=kept)


def _decode(decode: Callable[[Record], Request], full: Callable[[str], str], record: Record) -> Request:
    request = decode(record)
    if request.parked is not None:  # it reports the memory of the id's partition, and is trusted
        sentence = f"{names.PARKED} is only for the cold tier, which writes to the requests topic."
        raise Refusal(Reason.MALFORMED, f"{sentence} Leave it out.")
    request.id = full(request.id)
    return request


def _kept(kept: Callable[[Record], Headers], full: Callable[[str], str], prefix: bytes, record: Record) -> Headers:
    """Return the headers of a dead letter, which identify the same message wherever it is sent again."""
    return [(name, _named(full, prefix, value) if name == names.ID else value) for name, value in kept(record)]


def _named(full: Callable[[str], str], prefix: bytes, value: bytes | None) -> bytes | None:
    if not value:
        return value
    try:
        return full(value.decode()).encode()
    except (UnicodeDecodeError, Refusal):  # an invalid id gets the prefix too, so that no other namespace has it
        return value if value.startswith(prefix) else prefix + value
