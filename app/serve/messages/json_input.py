"""Reads JSON bodies: media types and structs, with problems that name the position of an error."""

import re
from collections.abc import Callable, Collection, Sized
from typing import Final, TypeVar

import msgspec
from aiohttp import web

from app.base.listening import bodies
from app.base.listening.limits import JSON_PARTS, has_too_many_parts
from app.serve.web.problem import Fault, Problem, pointer
from punctual.batches import MAX_HEADERS
from punctual.contract import json_fields
from punctual.contract.json_fields import SHORT, TooManyFieldsError

T = TypeVar("T")

_PATH: Final = re.compile(r" - at `(key in )?\$(.*)`$")
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
#: The whitespace of JSON.
SPACE: Final = b" \t\r\n"


def decode(kind: type[T], raw: bytes) -> T:
    """Return the value of a type in JSON. Raises Problem, with the position of an error."""
    return _decoded(lambda body: msgspec.json.decode(body, type=kind), raw)


def fields(raw: bytes) -> dict[str, msgspec.Raw]:
    """Return the fields of a JSON object. Raises Problem, also for too many fields."""
    return decode(dict[str, msgspec.Raw], raw) if len(raw) <= SHORT else _decoded(json_fields.fields, raw)[0]


def _decoded(read: Callable[[bytes], T], raw: bytes) -> T:
    try:
        return read(raw)
    except TooManyFieldsError as error:
        raise Problem("too-large", f"A message is {error}. Send fewer.") from error
    except msgspec.ValidationError as error:
        raise of_validation(error) from error
    except msgspec.DecodeError as error:
        raise Problem("bad-json", f"The body is not JSON: {error}.") from error
    except RecursionError as error:
        raise Problem("bad-json", "The body is JSON with too many levels of nesting.") from error


def check_text(raw: bytes) -> None:
    """Raise Problem for bytes that are not UTF-8, because msgspec does not check the parts that it skips."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise Problem("bad-json", f"The body is not JSON in UTF-8: {error}.") from error


def check_json(raw: bytes) -> None:
    """Raise Problem for JSON with more parts than may be decoded; commas and brackets in texts count too."""
    if has_too_many_parts(raw):
        sentence = f"The body has more than {JSON_PARTS:,} commas and brackets"
        raise Problem("body-too-large", f"{sentence}. Send it in parts; a message may carry BINARY, in base64.")


def check_headers(headers: Sized) -> None:
    """Raise Problem for more headers than a record may have, before each one costs memory."""
    if len(headers) > MAX_HEADERS:
        sentence = f"The message has {len(headers):,} headers, and a record has at most {MAX_HEADERS:,}. Send fewer."
        raise Problem("too-large", sentence, [Fault(pointer("headers"), sentence)])


def check_unique(raw: bytes, names: Collection[str]) -> None:
    """Raise Problem if a JSON object repeats one of these fields, because msgspec would use the last value."""
    # A name that occurs more often may be in a nested object.
    if len(raw) <= SHORT and not any(raw.count(b'"%s"' % name.encode()) > 1 for name in names):
        return
    _, repeated = _decoded(json_fields.fields, raw)
    for name in names:
        if name in repeated:
            sentence = f"{name} is given twice. Send it once."
            raise Problem("malformed", sentence, [Fault(pointer(name), sentence)])


def of_validation(error: msgspec.ValidationError) -> Problem:
    """Return the problem for an error of msgspec, whose text ends with the position."""
    text = str(error)
    match = _PATH.search(text)
    steps = [] if match is None else _STEP.findall(match[2].partition("[...]")[0])
    path = tuple(name or int(number) for name, number in steps)
    sentence = text if match is None else text[: match.start()]
    if sentence.startswith("Object contains unknown field `"):
        path = (*path, sentence.split("`")[1])
    where = ".".join(str(part) for part in path)
    detail = f"{where}: {sentence}." if where else f"{sentence}."
    return Problem("malformed", detail, [Fault(pointer(*path), f"{sentence}.")])


JSON: Final = ("application/json",)


def check_type(request: web.Request, types: Collection[str] = JSON) -> None:
    """Raise Problem for other or no media types, because browsers let pages of other sites send such bodies."""
    if "Content-Type" not in request.headers or request.content_type not in types:
        sentence = f"The body must be {' or '.join(types)}, not {request.content_type:.64}."
        raise Problem("unsupported-media-type", sentence, headers={"Accept": ", ".join(types)})


async def read(request: web.Request, kind: type[T], types: Collection[str] = JSON) -> T:
    """Return the value in a request's JSON, an empty object if there is no body. Raises Problem as read_body()."""
    is_empty = not request.can_read_body or not (await bodies.read_body(request)).strip()
    return decode(kind, b"{}" if is_empty else await read_body(request, types))


async def read_body(request: web.Request, types: Collection[str] = JSON) -> bytes:
    """Return a body without whitespace around it. Raises Problem, and HTTPRequestEntityTooLarge."""
    check_type(request, types)
    raw = (await bodies.read_body(request)).strip(SPACE)
    check_text(raw)
    check_json(raw)
    return raw
