"""Goes through pending messages page by page."""

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from punctual.cli.api import WorkerApi

_PAGE: Final = 500
_AGAIN_S: Final = 1.0
#: Of whole values so many bytes are asked for at once, as far as the page before tells.
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
    """Yield pages of what fits a filter, until the end or so many rows; values at any size if they are `whole`.

    A page may be empty, and may lack partitions: `missing` says so, if they do not come within the patience, which is
    over then. Raises a CommandError.
    """
    cursor: str | None = None
    most = min(size, _FIRST_WHOLE) if whole else size
    while True:
        asked = {**wanted, "limit": most if limit is None else min(most, limit), "cursor": cursor}
        page = _page(api, {**asked, "whole": "1" if whole else None}, patience_s)
        yield page
        if page["missing"]:
            patience_s = 0.0
        if whole:
            each = 1 + sum(row["value_bytes"] for row in page["rows"]) // max(1, len(page["rows"]))
            most = max(1, min(size, _WHOLE_BYTES // each))
        cursor = page["next"]
        if limit is not None:
            limit -= len(page["rows"])
        if cursor is None or limit == 0:
            return


def _page(api: WorkerApi, asked: Mapping[str, Any], patience_s: float) -> dict[str, Any]:
    """Return a page, when nothing is missing from it or nobody waits any more."""
    until = time.monotonic() + patience_s
    while True:
        page = api.get("/messages", asked, patience_s=max(0.0, until - time.monotonic()))
        if not page["missing"] or time.monotonic() >= until:
            return page
        time.sleep(_AGAIN_S)
