"""An HTTP server that answers POSTs as the test says, and keeps them."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from tests.harness.pace import usual_ms

#: A status, header fields, and the delay of the answer in seconds.
Answer = tuple[int, Mapping[str, str], float]
OK: Answer = (204, {}, 0.0)


@dataclass(frozen=True)
class Posted:
    """A request as it came; header names in lower case, the last of a name."""

    path: str
    headers: dict[str, str]
    body: bytes
    at_ms: int

    @property
    def late_ms(self) -> int:
        """How long after its due time the POST arrived, as on an idle machine."""
        return usual_ms(int(self.headers["delay-due"]), self.at_ms)


class Receiver(ThreadingHTTPServer):
    """Listens on a free port. `answer` gets a path and the number of earlier POSTs to the path."""

    request_queue_size = 256
    daemon_threads = True

    def __init__(
        self, answer: Callable[[str, int], Answer] = lambda _path, _before: OK, host: str = "127.0.0.1"
    ) -> None:
        super().__init__((host, 0), _Handler)
        self.answer = answer
        self.posted: list[Posted] = []
        self.taken: list[Posted] = []
        self.connections = 0
        self._of_path: dict[str, int] = defaultdict(int)
        self._lock = threading.Lock()

    @property
    def port(self) -> int:
        """The port."""
        return int(self.server_address[1])

    @property
    def origin(self) -> str:
        """The server's URL."""
        return f"http://127.0.0.1:{self.port}"

    def of(self, path: str) -> list[Posted]:
        """Return the POSTs to a path."""
        return [one for one in list(self.posted) if one.path == path]

    def note(self, posted: Posted) -> Answer:
        """Keep a request, and return what to answer."""
        with self._lock:
            before = self._of_path[posted.path]
            self._of_path[posted.path] += 1
            self.posted.append(posted)
        return self.answer(posted.path, before)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Receiver
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        posted = Posted(self.path, headers, body, time.time_ns() // 1_000_000)
        status, fields, wait_s = self.server.note(posted)
        if wait_s:
            time.sleep(wait_s)
        if 200 <= status < 300:
            self.server.taken.append(posted)
        try:
            self.send_response(status)
            for name, value in fields.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()
        except OSError:  # it was not waited for
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Log no requests."""

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            self.close_connection = True
