"""The caller's own headers, which are delivered unchanged, with their order and duplicates."""

from collections.abc import Iterable, Mapping

from punctual.client.errors import InvalidHeaderError
from punctual.contract import headers as names

HeaderValue = bytes | str | None
"""The type of a header's value: bytes are sent unchanged, text as UTF-8, None as Kafka's null."""

Headers = Mapping[str, HeaderValue] | Iterable[tuple[str, HeaderValue]]
"""The caller's headers, as a mapping, or as pairs where a name may come more than once."""

RawHeader = tuple[str, bytes | None]


def user_headers(headers: Headers) -> list[RawHeader]:
    """Return the headers as pairs of name and bytes, in their order and with duplicates.

    Raises InvalidHeaderError for a name that begins with `delay-`, which is reserved (records.md#requests), and for an
    invalid name or value.
    """
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [_pair(pair) for pair in pairs]


def _pair(pair: object) -> RawHeader:
    if not isinstance(pair, tuple | list) or len(pair) != 2:  # noqa: PLR2004 - a pair
        raise InvalidHeaderError(
            f'headers has {pair!r}, which is not a (name, value) pair: write headers=[("trace", b"42")].'
        )
    name, value = pair
    if not isinstance(name, str):
        raise InvalidHeaderError(f"The header name {name!r} is not a str: Kafka's header names are text.")
    if name.startswith(names.PREFIX):
        raise InvalidHeaderError(
            f"The header {name} begins with {names.PREFIX}, which is reserved: use the argument for it, or rename it."
        )
    return name, _value(name, value)


def _value(name: str, value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise InvalidHeaderError(
                f"The header {name} is not valid Unicode ({error.reason}): encode it to bytes yourself."
            ) from error
    raise InvalidHeaderError(
        f"The header {name} is {type(value).__name__}, not bytes, str or None: write str(...) or encode it."
    )
