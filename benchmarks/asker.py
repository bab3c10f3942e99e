"""A thread that loads a worker's pages during another measurement."""

import http.client
import threading
import time
from collections.abc import Callable
from typing import Self
from urllib.parse import urlsplit

from benchmarks.clock import now_ms
from benchmarks.errors import PromiseBroken

_TIMEOUT_S = 60.0
_OK = 200

Ask = Callable[[str], bytes]
"""A function that requests a path and returns the body of the response."""


class Asker:
    """Calls `what` again and again inside the `with` block, with pauses of `pause_s`, and keeps the response times."""

    def __init__(self, url: str, request: Callable[[Ask], None], pause_s: float) -> None:
        """Ask `url`, over one connection as a browser does."""
        self._request, self._pause_s = request, pause_s
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_TIMEOUT_S)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._failed: BaseException | None = None
        #: The requests by path (without query): their epoch ms, and their response times in ms.
        self.took: dict[str, list[tuple[int, float]]] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._connection.close()
        if self._failed is not None and kind is None:
            raise self._failed

    def ask(self, path: str) -> bytes:
        """Return the response to a path, and keep its time. Raises PromiseBroken if it is an error."""
        at_ms, began = now_ms(), time.perf_counter()
        self._connection.request("GET", path)
        answer = self._connection.getresponse()
        body = answer.read()
        took_ms = (time.perf_counter() - began) * 1_000
        if answer.status != _OK:
            raise PromiseBroken("look", [f"{path} answers {answer.status}: {body[:200]!r}"])
        self.took.setdefault(path.partition("?")[0], []).append((at_ms, took_ms))
        return body

    def _run(self) -> None:
        try:
            while not self._over.wait(self._pause_s):
                self._request(self.ask)
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._failed = error
