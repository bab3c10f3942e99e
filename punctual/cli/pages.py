"""Iterates over pending messages page by page."""

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from punctual.cli.api import WorkerApi

_PAGE: Final = 500
_AGAIN_S: Final = 1.0
#: The maximum size of a page with whole values, estimated from the previous page.
_WHOLE_BYTES: Final = 8 << 20
_FIRST_WHOLE: Final = 50


def pages(
    api: WorkerApi,
    wanted: Mapping[str, str],
    *,
    limit: int | None = None,
    size: int = _PAGE,
    whole: bool = False,
    patience_s: float = 0.0,
) -> Iterator[dict[str, Any]]:
    """Yield pages of messages that match a filter, up to `limit` rows, of any value size if `whole`.

    A page may be empty, and may lack partitions: `missing` lists those that did not come back within the patience,
    which is then used up. Raises a CommandError.
    """
    cursor: str | None = None
    most = min(size, _FIRST_WHOLE) if whole else size
    while True:
        query = {**wanted, "limit": most if limit is None else min(most, limit), "cursor": cursor}
        page = _page(api, {**query, "whole": "1" if whole else None}, patience_s)
        yield page
        if page["missing"]:
            patience_s = 0.0
        if whole:
            each = 1 + sum(row.get("value_bytes", 0) for row in page["rows"]) // max(1, len(page["rows"]))
            most = max(1, min(size, _WHOLE_BYTES // each))
        cursor = page["next"]
        if limit is not None:
            limit -= len(page["rows"])
        if cursor is None or limit == 0:
            return


def _page(api: WorkerApi, query: Mapping[str, Any], patience_s: float) -> dict[str, Any]:
    """Return a page, repeating the request until no partition is missing or the patience is over."""
    until = time.monotonic() + patience_s
    while True:
        page = api.get("/messages", query, patience_s=max(0.0, until - time.monotonic()))
        if not page["missing"] or time.monotonic() >= until:
            return page
        time.sleep(_AGAIN_S)
