"""Reads the body of an action: a JSON object with checked fields."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

import msgspec
from aiohttp import web

from app.base.listening.bodies import read_bounded
from app.base.listening.limits import JSON_PARTS, has_too_many_parts
from app.serve.web.server import BODY_BYTES
from punctual.batches import MAX_HEADERS
from punctual.contract.times import moment_of, parse_duration, parse_time


class BadBody(ValueError):
    """A body is invalid; the error message names the fault and how to fix it."""


async def body_of(request: web.Request, fields: Collection[str]) -> dict[str, Any]:
    """Return the JSON object in a request's body, which may have these fields; an empty body is an empty object.

    Raises BadBody.
    """
    raw = await read_bounded(request.content, BODY_BYTES)
    if raw is None:
        raise BadBody(f"the body is larger than {BODY_BYTES >> 20} MiB")
    if has_too_many_parts(raw):
        raise BadBody(f"the body has more than {JSON_PARTS:,} commas and brackets. Send the value in base64")
    try:
        body = msgspec.json.decode(raw) if raw.strip() else {}
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadBody(f"the body is not JSON: {error}") from error
    except RecursionError as error:
        raise BadBody("the body is JSON with too many levels of nesting") from error
    if not isinstance(body, dict):
        raise BadBody("the body must be a JSON object")
    unknown = sorted(set(body) - set(fields))
    if unknown:
        known = ", ".join(fields) or "none at all"
        raise BadBody(f"there is no field {unknown[0]!r}. The fields are {known}")
    headers = body.get("headers")
    if isinstance(headers, dict | list) and len(headers) > MAX_HEADERS:
        raise BadBody(f"headers has {len(headers):,} entries. The maximum is {MAX_HEADERS:,}")
    return body


def moment(body: dict[str, Any], name: str) -> datetime | None:
    """Return a time field of the body: epoch milliseconds, as a number or digits, or RFC 3339. Raises BadBody."""
    said = body.get(name)
    if said is None or said == "":
        return None
    try:
        return moment_of(parse_time(str(said)))
    except (ValueError, OverflowError, OSError) as error:
        raise BadBody(f"{name}: {error}") from error


def span(body: dict[str, Any], name: str) -> timedelta | None:
    """Return a duration field of the body: milliseconds, as a number or digits, or ISO 8601. Raises BadBody."""
    said = body.get(name)
    if said is None or said == "":
        return None
    try:
        return timedelta(milliseconds=parse_duration(str(said)))
    except (ValueError, OverflowError) as error:
        raise BadBody(f"{name}: {error}") from error


def text(body: dict[str, Any], name: str) -> str | None:
    """Return a text field of the body. Raises BadBody."""
    said = body.get(name)
    if said is None or isinstance(said, str):
        return said
    raise BadBody(f"{name} must be text, not {said!r:.64}")


def raw(body: dict[str, Any], name: str) -> bytes | None:
    """Return a bytes field of the body: text, or an object with `base64`. Raises BadBody."""
    said = body.get(name)
    if said is None:
        return None
    if isinstance(said, str):
        return said.encode()
    if isinstance(said, dict) and set(said) == {"base64"}:
        try:
            return msgspec.convert(said["base64"], bytes)
        except msgspec.ValidationError as error:
            raise BadBody(f"{name}: {error}") from error
    raise BadBody(f'{name} must be text, or {{"base64": "…"}}')
