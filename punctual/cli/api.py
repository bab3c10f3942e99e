"""A worker's HTTP API over one persistent connection, with errors that say what to do next."""

import base64
import os
import ssl
import time
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final, Self
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from punctual.cli.errors import CommandError, Incomplete, NotAllowed, NotFound, Unreachable, WrongUse
from punctual.cli.parser import Options
from punctual.cli.terminal import can_ask, say

DEFAULT_URL: Final = "http://127.0.0.1:6066"
_ADDRESSES: Final = f"{DEFAULT_URL}, or https://…"
_BASE: Final = "/api/v1"
#: The timeout of a response. The slowest one, a count for a job, takes up to half a minute.
_PATIENCE_S: Final = 75.0
_AGAIN_S: Final = 1.0
_OK: Final = range(200, 300)
#: Ids that are in the query of an address, not in its path.
_NOT_IN_A_PATH: Final = frozenset({".", "..", "count", "-"})


class ApiAnswer(msgspec.Struct, frozen=True):
    """A worker's response: a status, and an object."""

    status: int
    body: dict[str, Any]

    @property
    def error(self) -> str:
        """The error message of the response."""
        return str(self.body.get("detail") or f"it answers {self.status}")


class WorkerApi:
    """Sends requests to one worker, which answers for all workers."""

    def __init__(self, url: str, authorization: str | None = None) -> None:
        """Use the worker at `url`. Raises WrongUse if it is not a valid address."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise WrongUse(f"--url {url!r} is not the address of a worker ({error}): use {_ADDRESSES}") from error
        if parts.scheme not in ("http", "https") or not host:
            raise WrongUse(f"--url {url!r} is not the address of a worker: use {_ADDRESSES}")
        self.url = url.rstrip("/")
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._connection = kind(host, port, timeout=_PATIENCE_S)
        self._path = parts.path.rstrip("/")
        self._authorization = authorization
        self._headers = {"Authorization": authorization} if authorization else {}
        self._headers |= {"Accept": "application/json"}

    @classmethod
    def of(cls, options: Options) -> Self:
        """Return the API for the options `--url` and `--user`. Raises WrongUse."""
        return cls(options.url, _authorization(options.user))

    def another(self) -> "WorkerApi":
        """Return a second connection to the same worker."""
        return WorkerApi(self.url, self._authorization)

    def __enter__(self) -> Self:
        """Return itself; the first request connects."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        self._connection.close()

    def get(self, path: str, query: Mapping[str, object] | None = None, *, patience_s: float = 0.0) -> dict[str, Any]:
        """Return the response to a GET request, repeated for at most `patience_s` while the worker is unreachable.

        Raises a CommandError.
        """
        until = time.monotonic() + patience_s
        while True:
            try:
                answer = self.ask("GET", path, query)
                return self._good(answer)
            except Unreachable:
                if time.monotonic() > until:
                    raise
                time.sleep(_AGAIN_S)

    def post(self, path: str, body: Mapping[str, object], query: Mapping[str, object] | None = None) -> ApiAnswer:
        """Send a POST request, and return its response, also if it is an error, unless the caller has no permission.

        Raises NotAllowed, or Unreachable.
        """
        answer = self.ask("POST", path, query, msgspec.json.encode(body))
        if answer.status in (401, 403, 405, 421):
            self._good(answer)
        return answer

    def ask(
        self, method: str, path: str, query: Mapping[str, object] | None = None, body: bytes | None = None
    ) -> ApiAnswer:
        """Return the response with any status. Raises Unreachable, or CommandError if it is not from a worker."""
        given = {name: value for name, value in (query or {}).items() if value not in (None, "")}
        where = f"{self._path}{_BASE}{path}" + (f"?{urlencode(given)}" if given else "")
        headers = self._headers | ({"Content-Type": "application/json"} if body is not None else {})
        try:
            response, raw = self._exchange(method, where, body, headers)
        except (OSError, HTTPException) as error:
            self._connection.close()
            why = str(error) or type(error).__name__
            if isinstance(error, ssl.SSLCertVerificationError):
                raise Unreachable(
                    f"the certificate of {self.url} is not trusted ({error.verify_message}): set SSL_CERT_FILE to the "
                    "file of its authority, or give an address with a name of the certificate"
                ) from error
            raise Unreachable(
                f"cannot reach {self.url} ({why}): start a worker there, or give another address with --url or "
                "PUNCTUAL_URL"
            ) from error
        try:
            content = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            content = None
        if isinstance(content, dict):
            return ApiAnswer(response.status, content)
        if response.status in (401, 403) or response.status in range(300, 400):
            return ApiAnswer(401, {"detail": "it requires a login"})
        raise CommandError(
            f"the server at {self.url} is not a Punctual worker ({response.status} {response.reason}): "
            "give the address of a worker with --url or PUNCTUAL_URL"
        )

    def _exchange(
        self, method: str, where: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[HTTPResponse, bytes]:
        kept = self._connection.sock is not None
        try:
            self._connection.request(method, where, body, dict(headers))
            response = self._connection.getresponse()
        except (ConnectionError, HTTPException):
            self._connection.close()
            if not kept or method != "GET":
                raise
            # The worker may have closed the connection since the last request.
            self._connection.request(method, where, body, dict(headers))
            response = self._connection.getresponse()
        return response, response.read()

    def _good(self, answer: ApiAnswer) -> dict[str, Any]:
        """Return the body of a successful response. Raises a CommandError for any other."""
        if answer.status in _OK:
            return answer.body
        raise self.failure(answer)

    def failure(self, answer: ApiAnswer) -> CommandError:
        """Return the error for a response."""
        error = answer.error
        invalid = answer.status == HTTPStatus.BAD_REQUEST or str(answer.body.get("type")).endswith("/malformed")
        match answer.status:
            case 401:
                sentence = f"{self.url} rejected the login ({error}): give --user NAME, or a token in PUNCTUAL_TOKEN"
                return NotAllowed(sentence)
            case 403 | 421:
                return NotAllowed(f"{self.url} refused it: {error}")
            case 404:
                return NotFound(error)
            case 502 | 503 | 504:
                return Unreachable(f"{self.url} cannot answer at the moment: {error}. Try again, or use another worker")
            case _:
                return WrongUse(error) if invalid else CommandError(f"{self.url}: {error}")


def escaped(name: str) -> str:
    """Return an id or a destination as a part of a path."""
    return quote(name, safe="")


def message_at(id_: str, rest: str = "") -> tuple[str, dict[str, object]]:
    """Return the path and query of a message; ids with dots go into the query, because proxies change such paths."""
    if id_ in _NOT_IN_A_PATH:
        return f"/messages/-{rest}", {"id": id_}
    return f"/messages/{escaped(id_)}{rest}", {}


def missing(answer: Mapping[str, Any]) -> Incomplete | None:
    """Return an error for the partitions that are missing from a response, None if it is complete."""
    partitions = answer.get("missing") or []
    if not partitions:
        return None
    numbers = sorted(number for one in partitions for number in one["partitions"])
    why = "; ".join(sorted({f"{one['worker'] or 'no worker'}: {one['why']}" for one in partitions}))
    named = ", ".join(map(str, numbers))
    return Incomplete(f"no data from {len(numbers)} partitions ({named}): {why}. Try again when a worker serves them")


def _authorization(user: str | None) -> str | None:
    token = os.environ.get("PUNCTUAL_TOKEN", "").strip()  # files of secrets often end with a newline
    if user is None:
        if not all(" " < char < "\x7f" for char in token):
            raise WrongUse(
                "PUNCTUAL_TOKEN is not a token: it contains a character that is not printable ASCII. Copy it again"
            )
        return f"Bearer {token}" if token else None
    password = os.environ.get("PUNCTUAL_PASSWORD")
    if password is None:
        if not can_ask():
            raise WrongUse("--user needs a password, and there is no terminal to ask for it: set PUNCTUAL_PASSWORD")
        from getpass import getpass  # noqa: PLC0415 - few are asked

        password = getpass(f"Password of {user}: ")
    elif token:
        say("PUNCTUAL_TOKEN is ignored, because --user is given")
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
