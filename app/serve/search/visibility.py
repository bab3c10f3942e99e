"""Limits searches and results to the user's permissions: the user's namespaces, without masked values."""

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

#: The text in place of masked values.
MASKED: Final = "masked"
_GUESSED: Final = "{what} is masked for viewers (DELAY_WEB_PAYLOADS). Only operators can search by it"
_HIDDEN: Final = "the path of a URL may be secret, so only operators can search by it. Give the URL without its path"


def own_namespaces(namespaces: Namespaces, asker: Asker) -> Namespaces:
    """Return the namespaces that `asker` may see; all others count as missing."""
    return namespaces if asker.namespaces is None else namespaces.part(asker.namespaces)


def namespaces_within(wanted: Namespaces | None, own: Namespaces, asker: Asker) -> Namespaces | None:
    """Return the namespaces of a filter: those in `wanted`, limited to the user's `own`."""
    if not asker.bound:
        return wanted
    return own if wanted is None else own.part(wanted.names)


def filter_of(query: Mapping[str, str], namespaces: Namespaces, asker: Asker) -> Filter:
    """Return the filter in a user's URL. Raises FilterError."""
    own = own_namespaces(namespaces, asker)
    wanted = Filter.from_query(query, own)
    check_url(wanted.to, asker)
    if asker.masked and asker.role == ROLES[0]:  # or they could guess masked values
        for what, said in (("the key", wanted.key), ("a header's value", wanted.header.partition(":")[2])):
            if said:
                raise FilterError(_GUESSED.format(what=what))
    return msgspec.structs.replace(wanted, within=namespaces_within(wanted.within, own, asker))


def check_url(to: str, asker: Asker) -> None:
    """Raise FilterError if a viewer filters by the path of a URL, because paths are never shown."""
    if asker.role == ROLES[0] and origin_of(to) not in (to, to.removesuffix("/")):
        raise FilterError(_HIDDEN)


def id_of(said: str, namespaces: Namespaces, asker: Asker) -> str:
    """Return the full name of the ID that a user means, which is always within the user's namespaces.

    An ID outside of the namespaces gets the prefix of the user's first namespace, where it cannot belong to another
    user. Raises FilterError if it is then too long.
    """
    if asker.namespaces is None or namespaces.of_id(said) in asker.namespaces:
        return said
    try:
        return namespaces.full(asker.namespaces[0], said)
    except Refusal as error:
        raise FilterError(str(error)) from error


def page_shown(page: SearchPage, asker: Asker, *, whole: bool = False) -> SearchPage:
    """Return a page as the user may see it, without the number of scanned messages if bound to namespaces.

    With `whole` it is for a copy of the messages, which needs whole URLs; otherwise URLs are cut to their origins.
    """
    rows = page.rows if whole and not asker.masked else [_row_shown(row, asker) for row in page.rows]
    return msgspec.structs.replace(page, rows=rows, looked_at=len(rows) if asker.bound else page.looked_at)


def count_shown(count: SearchCount, asker: Asker) -> SearchCount:
    """Return a count as the user may see it."""
    return msgspec.structs.replace(count, looked_at=count.matching) if asker.bound else count


def row_shown(row: Row | None, asker: Asker) -> Row | None:
    """Return a message as the user may see it."""
    return None if row is None else _row_shown(row, asker)


def filter_shown(wanted: Filter, asker: Asker) -> Filter:
    """Return another user's filter as `asker` may see it, because URLs, keys and headers in it may be secrets."""
    wanted = msgspec.structs.replace(wanted, to=origin_of(wanted.to))
    if not asker.masked:
        return wanted
    name, colon, _ = wanted.header.partition(":")
    return msgspec.structs.replace(wanted, key=wanted.key and MASKED, header=name + colon + (MASKED if colon else ""))


def _row_shown(row: Row, asker: Asker) -> Row:
    return masked(row) if asker.masked else without_secrets(row)
