"""Goes through pending messages page by page."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from punctual.cli.api import Api

_PAGE: Final = 500


def pages(
    api: Api,
    wanted: Mapping[str, str],
    *,
    limit: int | None = None,
    size: int = _PAGE,
    whole: bool = False,
    patience_s: float = 0.0,
) -> Iterator[dict[str, Any]]:
    """Yield pages of what fits a filter, until the end or so many rows; values at any size if they are `whole`.

    A page may be empty, and may lack partitions: `missing` says so. Raises a CommandError.
    """
    cursor: str | None = None
    while True:
        asked = {**wanted, "limit": size if limit is None else min(size, limit), "cursor": cursor}
        page = api.get("/messages", {**asked, "whole": "1" if whole else None}, patience_s=patience_s)
        yield page
        cursor = page["next"]
        if limit is not None:
            limit -= len(page["rows"])
        if cursor is None or limit == 0:
            return
