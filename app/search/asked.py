"""What whoever asks may look for, and what they see of what is found."""

from collections.abc import Mapping
from typing import Final

import msgspec

from app.access.roles import ROLES, Asker
from app.search.filter import Filter, FilterError
from app.search.page import Page
from app.search.row import Row, masked

#: What stands for what is not shown.
MASKED: Final = "masked"
_GUESSED: Final = "{what} is masked for viewers (DELAY_WEB_PAYLOADS), and only operators search by it"


def filter_of(query: Mapping[str, str], asker: Asker) -> Filter:
    """Return the filter that somebody's address has. Raises FilterError."""
    wanted = Filter.from_query(query)
    if asker.masked and asker.role == ROLES[0]:  # or they would guess what they do not see
        for what, said in (("the key", wanted.key), ("a header's value", wanted.header.partition(":")[2])):
            if said:
                raise FilterError(_GUESSED.format(what=what))
    return wanted


def shown(page: Page, asker: Asker) -> Page:
    """Return a page as somebody may see it."""
    return msgspec.structs.replace(page, rows=[masked(row) for row in page.rows]) if asker.masked else page


def row_shown(row: Row | None, asker: Asker) -> Row | None:
    """Return a message as somebody may see it."""
    return masked(row) if row is not None and asker.masked else row


def filter_shown(wanted: Filter, asker: Asker) -> Filter:
    """Return a filter of somebody else's as somebody may see it: it may say what keys and headers say."""
    if not asker.masked:
        return wanted
    name, colon, _ = wanted.header.partition(":")
    return msgspec.structs.replace(wanted, key=wanted.key and MASKED, header=name + colon + (MASKED if colon else ""))
