"""The access file (TOML): people, programs and groups with their permissions; it is read again when it changes."""

import asyncio
import logging
from collections.abc import Collection

from app.base.watched_file import Line, WatchedFile
from app.serve.access import former
from app.serve.access.entries import Access, access_of

log = logging.getLogger(__name__)


class AccessFile:
    """The access file of a setting; if it cannot be read any more, the last content stays valid."""

    def __init__(self, setting: str, path: str, namespaces: Collection[str]) -> None:
        """Read the file at `path`, which may name these namespaces; with an empty path it allows nobody.

        Raises ValueError, which describes the mistake and its line, but never contains a hash or a token.
        """

        def parse(lines: list[Line]) -> Access:
            if not path:
                return Access()
            tables, find_line, form = former.tables_of(lines)
            if form:
                self.form = form
            mistakes, access = access_of(tables, find_line, None if form == former.TOKENS else namespaces)
            if mistakes:
                raise ValueError(mistakes[0])
            return access

        self.setting, self.path, self.form = setting, path, ""
        self._file = WatchedFile(setting, path, parse, "users and groups")
        if self.form:
            log.warning(
                "%s=%s has the form of an earlier version (%s), which the next version will not read. Print the new "
                "form, with the same hashes: punctual access convert %s",
                *(setting, path, self.form, path),
            )

    def __bool__(self) -> bool:
        return bool(self._file)

    def now(self) -> Access:
        """Return the content; checks once a second whether the file has changed."""
        return self._file.content(asyncio.get_running_loop().time())

    @property
    def last(self) -> Access:
        """The content as it was last read."""
        return self._file.last
