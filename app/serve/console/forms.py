"""Reads forms: times and durations as users enter them, and the filter of a search."""

import contextlib
import functools
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, urlencode

from aiohttp import web

from app.base.listening.bodies import read_bounded
from app.serve.console import flash
from app.serve.search.filter import QueryFilter
from punctual.batches import MAX_HEADERS
from punctual.contract.times import moment_of

UNITS_MS: Final = {"seconds": 1_000, "minutes": 60_000, "hours": 3_600_000, "days": 86_400_000}
_DIGITS: Final = 15
#: A message of 1 MiB can take 3 MiB in a form. All our pages have fewer fields.
_FORM_BYTES, _FIELDS = 4 << 20, 100

Pages = TypeVar("Pages")
PageHandler = Callable[[Pages, web.Request], Awaitable[web.Response]]
#: A handler that gets the fields of a form.
FormHandler = Callable[[Pages, web.Request, dict[str, str]], Awaitable[web.Response]]


async def form(request: web.Request) -> dict[str, str]:
    """Return the texts of a URL-encoded form. Raises HTTPException for other types, or if it is too large."""
    if not request.can_read_body:
        return {}
    if request.content_type != "application/x-www-form-urlencoded":
        raise web.HTTPUnsupportedMediaType
    raw = await read_bounded(request.content, _FORM_BYTES)
    if raw is None:
        raise web.HTTPRequestEntityTooLarge(_FORM_BYTES, _FORM_BYTES + 1)
    try:
        fields = dict(parse_qsl(raw.decode(errors="replace"), keep_blank_values=True, max_num_fields=_FIELDS))
    except ValueError:
        raise web.HTTPBadRequest(reason=f"the form has more than {_FIELDS} fields") from None
    if fields.get("headers", "").count("\n") > MAX_HEADERS:  # one per line
        raise web.HTTPBadRequest(reason=f"a message has at most {MAX_HEADERS:,} headers")
    return fields


def page_of(request: web.Request) -> str:
    """Return the URL of the page whose form sends a request: the same without the last part of the path."""
    page, query = request.rel_url.raw_path.rpartition("/")[0], request.rel_url.raw_query_string
    return f"{page}?{query}" if query else page


def handler(answer: FormHandler[Pages]) -> PageHandler[Pages]:
    """Return a handler for the fields of a form; the page with the form shows the sentence of a ValueError."""

    @functools.wraps(answer)
    async def handle(pages: Pages, request: web.Request) -> web.Response:
        fields = await form(request)
        try:
            return await answer(pages, request, fields)
        except ValueError as error:
            return flash.see_other(page_of(request), success=False, sentence=str(error))

    return handle


def moment_ms(text: str) -> int:
    """Return a time in a form: epoch ms, or a date and time, UTC unless it has a zone. Raises ValueError."""
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a valid time. Write it as 2030-01-31T08:00") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def for_input(text: str) -> str:
    """Return a time as the value of a form's field."""
    try:
        moment = moment_of(moment_ms(text))
    except (ValueError, OverflowError, OSError):
        return ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}" + (f".{moment.microsecond // 1000:03d}" if moment.microsecond else "")


def due(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return a form's due time as the API accepts it: `after` (ms) if that was chosen, else `at`. Raises ValueError."""
    if fields.get("when", "after") == "after":
        count = fields.get("count", "").strip()
        try:
            span_ms = round(float(count) * UNITS_MS[fields.get("unit", "seconds")])
        except (ValueError, KeyError, OverflowError):
            raise ValueError(f"{count!r} is not a number. Enter a delay, such as 15 minutes") from None
        return {"after": span_ms}
    if not fields.get("at", "").strip():
        raise ValueError("the due time is missing. Enter a date and time in UTC")
    return {"at": moment_ms(fields["at"])}


def filter_of(fields: Mapping[str, str], kind: type[QueryFilter]) -> dict[str, str]:
    """Return the filter in a query or form, its times in epoch milliseconds.

    Invalid times are passed on, because the API reports them.
    """
    criteria = {name: fields[name] for name in kind.names if fields.get(name, "").strip()}
    for name in criteria.keys() & {f"{kind.period}_from", f"{kind.period}_to"}:
        with contextlib.suppress(ValueError):
            criteria[name] = str(moment_ms(criteria[name]))
    return criteria


def confirmed_count(fields: Mapping[str, str]) -> int:
    """Return the number that was typed to confirm an action on many messages. Raises ValueError with a sentence."""
    try:
        return int(fields.get("confirm", "").replace(",", "").strip())
    except ValueError:
        raise ValueError("to confirm, type the number of matching messages") from None


def address(path: str, query: Mapping[str, str]) -> str:
    """Return a path with a query, as a URL."""
    return f"{path}?{urlencode(query)}" if query else path
