"""What a user may search for, and see of the results: nothing outside of their namespaces, nothing that is masked."""

from collections.abc import Mapping
from typing import Final

import msgspec

from app.serve.access.roles import ROLES, Asker
from app.serve.search.filter import Filter, FilterError
from app.serve.search.page import SearchCount, SearchPage
from app.serve.search.row import Row, masked, without_secrets
from punctual.contract.destination import shown as origin_of
from punctual.contract.namespaces import Namespaces
from punctual.contract.request import Refusal

#: What stands for what is not shown.
MASKED: Final = "masked"
_GUESSED: Final = "{what} is masked for viewers (DELAY_WEB_PAYLOADS). Only operators can search by it"
_HIDDEN: Final = "the path of a URL may be secret, so only operators can search by it. Give the URL without its path"


def own_namespaces(namespaces: Namespaces, asker: Asker) -> Namespaces:
    """Return the namespaces that there are for somebody: others might as well not be."""
    return namespaces if asker.namespaces is None else namespaces.part(asker.namespaces)


def namespaces_within(wanted: Namespaces | None, own: Namespaces, asker: Asker) -> Namespaces | None:
    """Return the namespaces that a filter keeps to: what it says, and never more than is somebody's own."""
    if not asker.bound:
        return wanted
    return own if wanted is None else own.part(wanted.names)


def filter_of(query: Mapping[str, str], namespaces: Namespaces, asker: Asker) -> Filter:
    """Return the filter that somebody's address has. Raises FilterError."""
    own = own_namespaces(namespaces, asker)
    wanted = Filter.from_query(query, own)
    check_url(wanted.to, asker)
    if asker.masked and asker.role == ROLES[0]:  # or they would guess what they do not see
        for what, said in (("the key", wanted.key), ("a header's value", wanted.header.partition(":")[2])):
            if said:
                raise FilterError(_GUESSED.format(what=what))
    return msgspec.structs.replace(wanted, within=namespaces_within(wanted.within, own, asker))


def check_url(to: str, asker: Asker) -> None:
    """Check that a viewer does not guess the path of a URL, which nobody is shown. Raises FilterError."""
    if asker.role == ROLES[0] and origin_of(to) not in (to, to.removesuffix("/")):
        raise FilterError(_HIDDEN)


def id_of(said: str, namespaces: Namespaces, asker: Asker) -> str:
    """Return the full name of the id that somebody means: within their namespaces, whatever they say.

    An id that is none of theirs is taken for one of their first namespace, where it cannot be anybody else's. Raises
    FilterError if that is too long.
    """
    if asker.namespaces is None or namespaces.of_id(said) in asker.namespaces:
        return said
    try:
        return namespaces.full(asker.namespaces[0], said)
    except Refusal as error:
        raise FilterError(str(error)) from error


def page_shown(page: SearchPage, asker: Asker, *, whole: bool = False) -> SearchPage:
    """Return a page as somebody may see it: how many messages others have is not theirs to know.

    With `whole` it is for a copy of the messages, which needs their URLs; otherwise these are their origins.
    """
    rows = page.rows if whole and not asker.masked else [_row_shown(row, asker) for row in page.rows]
    return msgspec.structs.replace(page, rows=rows, looked_at=len(rows) if asker.bound else page.looked_at)


def count_shown(count: SearchCount, asker: Asker) -> SearchCount:
    """Return a count as somebody may see it."""
    return msgspec.structs.replace(count, looked_at=count.matching) if asker.bound else count


def row_shown(row: Row | None, asker: Asker) -> Row | None:
    """Return a message as somebody may see it."""
    return None if row is None else _row_shown(row, asker)


def filter_shown(wanted: Filter, asker: Asker) -> Filter:
    """Return a filter of somebody else's as somebody may see it: it may say what URLs, keys and headers say."""
    wanted = msgspec.structs.replace(wanted, to=origin_of(wanted.to))
    if not asker.masked:
        return wanted
    name, colon, _ = wanted.header.partition(":")
    return msgspec.structs.replace(wanted, key=wanted.key and MASKED, header=name + colon + (MASKED if colon else ""))


def _row_shown(row: Row, asker: Asker) -> Row:
    return masked(row) if asker.masked else without_secrets(row)
