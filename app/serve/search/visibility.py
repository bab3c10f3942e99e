"""Limits searches and results to the user's permissions: the user's namespaces, without masked values."""

from collections.abc import Collection, Mapping
from typing import Final, TypeVar

import msgspec

from app.serve.access.caller import ROLES, Caller
from app.serve.search.filter import Filter, FilterError, QueryFilter
from app.serve.search.page import PendingPage, SearchCount
from app.serve.search.pending import PendingMessage, masked, without_secrets
from punctual.contract.destination import shown as origin_of
from punctual.contract.namespaces import Namespaces

AnyFilter = TypeVar("AnyFilter", bound=QueryFilter)

#: The text in place of masked values.
MASKED: Final = "masked"
_GUESSED: Final = "{what} is masked for viewers (DELAY_WEB_PAYLOADS). Only operators can search by it"
_HIDDEN: Final = "the path of a URL may be secret, so only operators can search by it. Give the URL without its path"


def filter_of(kind: type[AnyFilter], query: Mapping[str, str], namespaces: Namespaces, caller: Caller) -> AnyFilter:
    """Return the filter in a user's URL, limited to the namespaces that `caller` may see. Raises FilterError."""
    own = namespaces if caller.namespaces is None else namespaces.part(caller.namespaces)
    wanted = kind.from_query(query, own)
    _check_secrets(wanted, caller)
    if not caller.bound:
        return wanted
    return msgspec.structs.replace(wanted, within=own if wanted.within is None else own.part(wanted.within.names))


def _check_secrets(wanted: QueryFilter, caller: Caller) -> None:
    """Raise FilterError if a viewer filters by values that are not shown, because the viewer could guess them."""
    if caller.role != ROLES[0]:
        return
    if origin_of(wanted.to) not in (wanted.to, wanted.to.removesuffix("/")):
        raise FilterError(_HIDDEN)
    if caller.masked and isinstance(wanted, Filter):
        for what, value in (("the key", wanted.key), ("a header's value", wanted.header.partition(":")[2])):
            if value:
                raise FilterError(_GUESSED.format(what=what))


def sees(caller: Caller, namespaces: Collection[str]) -> bool:
    """Return whether a user may see an object of these namespaces. A bound user sees only their namespaces."""
    return caller.namespaces is None or (bool(namespaces) and set(namespaces) <= set(caller.namespaces))


def page_shown(page: PendingPage, caller: Caller, *, whole: bool = False) -> PendingPage:
    """Return a page as the user may see it, without the number of scanned messages if bound to namespaces.

    With `whole` it is for a copy of the messages, which needs whole URLs; otherwise URLs are cut to their origins.
    """
    rows = page.rows if whole and not caller.masked else [message_shown(message, caller) for message in page.rows]
    return msgspec.structs.replace(page, rows=rows, looked_at=len(rows) if caller.bound else page.looked_at)


def count_shown(count: SearchCount, caller: Caller) -> SearchCount:
    """Return a count as the user may see it."""
    return msgspec.structs.replace(count, looked_at=count.matching) if caller.bound else count


def message_shown(message: PendingMessage, caller: Caller) -> PendingMessage:
    """Return a message as the user may see it."""
    return masked(message) if caller.masked else without_secrets(message)


def filter_shown(filter_: Filter, caller: Caller) -> Filter:
    """Return another user's filter without secrets: the origin of its URL, and no key or header for masked callers."""
    filter_ = msgspec.structs.replace(filter_, to=origin_of(filter_.to))
    if not caller.masked:
        return filter_
    name, colon, _ = filter_.header.partition(":")
    return msgspec.structs.replace(filter_, key=filter_.key and MASKED, header=name + colon + (MASKED if colon else ""))
