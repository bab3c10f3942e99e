"""A TLS context that reads changed files again, so that certificates can be replaced without a restart."""

import logging
import os
import ssl
import threading
from functools import lru_cache
from typing import Any, Final, Self

from punctual.security.errors import LoginInvalid
from punctual.security.login import Login

log = logging.getLogger(__name__)

#: The maximum number of cached contexts, more than there are clusters.
_KEPT: Final = 64


class WatchedContext(ssl.SSLContext):
    """Uses the current certificates of its files for each new connection; open connections keep theirs.

    If files cannot be used, this is logged, and their former content stays in use: they may be half written, or a
    mistake that must not stop a running program.
    """

    def __new__(cls, _login: Login) -> Self:
        """Create a context for clients that verify the server."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, login: Login) -> None:
        """Read the files of a login. Raises OSError; ssl.SSLError is one."""
        self._login, self._lock = login, threading.Lock()
        self._seen = self._logged = self._state()
        self._current = self._read()

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        """Begin a connection of a socket."""
        return self.current().wrap_socket(*args, **options)

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """Begin a connection of asyncio."""
        return self.current().wrap_bio(*args, **options)

    def current(self) -> ssl.SSLContext:
        """Return a context with the current certificates."""
        with self._lock:
            state = self._state()
            if state != self._seen:
                self._look(state)
            return self._current

    def _look(self, state: list[tuple[int, ...]]) -> None:
        try:
            self._current = self._read()
        except OSError as error:
            if state != self._logged:  # and tries again at the next connection
                self._logged = state
                log.error("%s have changed, but are not used: %s. The old ones stay in use.", self._named, error)  # noqa: TRY400 - the sentence has it
        else:
            self._seen = state
            log.info("%s have changed: new connections use them", self._named)

    @property
    def _files(self) -> list[str]:
        login = self._login
        return [file for file in (login.cafile, login.certfile, login.keyfile) if file]

    @property
    def _named(self) -> str:
        return f"the certificates {', '.join(self._files)}"

    def _read(self) -> ssl.SSLContext:
        login = self._login
        made = ssl.create_default_context(cafile=login.cafile or None)
        if login.certfile:
            made.load_cert_chain(login.certfile, login.keyfile or None, _no_password)
        return made

    def _state(self) -> list[tuple[int, ...]]:
        """Return a value that changes when a file does."""
        state: list[tuple[int, ...]] = []
        for file in self._files:
            try:
                stat = os.stat(file)  # noqa: PTH116 - for each connection
                state.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
            except OSError:
                state.append(())
        return state


def _no_password() -> str:
    """Refuse encrypted keys, for which OpenSSL would ask a password on the terminal."""
    raise ssl.SSLError("the key is encrypted, which is not supported: protect the file instead")


@lru_cache(maxsize=_KEPT)
def _context(login: Login) -> WatchedContext:
    return WatchedContext(login)


def context_of(login: Login) -> WatchedContext:
    """Return the cached context of a login.

    Raises LoginInvalid, which names the files that cannot be used.
    """
    names = {"SSL_CAFILE": login.cafile, "SSL_CERTFILE": login.certfile, "SSL_KEYFILE": login.keyfile}
    try:
        return _context(login)
    except OSError as error:
        given = {name: file for name, file in names.items() if file}
        raise LoginInvalid(", ".join(given), ", ".join(given.values()), str(error)) from error


def ends_ms(login: Login) -> dict[str, int]:
    """Return when (epoch ms) the certificates in a login's files expire; of several authorities, the last one.

    Raises OSError if they cannot be read.
    """
    ends = {}
    if login.certfile:
        certificate = ssl._ssl._test_decode_cert(login.certfile)  # type: ignore[attr-defined]  # noqa: SLF001 - there is no public way
        ends[login.certfile] = end_ms(certificate)
    if login.cafile:
        authorities = ssl.create_default_context(cafile=login.cafile).get_ca_certs()
        ends |= {login.cafile: max(map(end_ms, authorities))} if authorities else {}
    return ends


def end_ms(certificate: Any) -> int:
    """Return when (epoch ms) a certificate expires; `certificate` is in the form of Python's ssl."""
    return int(ssl.cert_time_to_seconds(certificate["notAfter"]) * 1000)
