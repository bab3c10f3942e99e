"""A Redis sorted set with a worker that polls it, the first solution of most teams."""

import shutil
import socket
import sys
from contextlib import ExitStack
from pathlib import Path

from app.dev.broker.ports import HOST, free_port
from benchmarks import topics
from benchmarks.baselines.rival import Rival
from benchmarks.clock import wait_for
from benchmarks.errors import BaselineMissing

_START_S = 10.0


class SortedSet(Rival):
    """A redis-server that appends to a file each second, and one worker process; both count."""

    def launch(self, directory: Path, stack: ExitStack) -> None:
        """Start Redis and the worker."""
        server = shutil.which("redis-server")
        if server is None:
            raise BaselineMissing("sorted-set", "redis-server on PATH")
        port = free_port()
        options = ["--bind", HOST, "--port", str(port), "--dir", str(directory), "--save", "", "--appendonly", "yes"]
        self.start("redis-server", [server, *options], directory, stack)
        wait_for(lambda: _listens(port), _START_S, "redis-server's start")
        worker = [sys.executable, "-m", "benchmarks.baselines.sorted_set_worker", self.bootstrap, self.app_id]
        self.start("sorted-set worker", [*worker, self.requests, self.out, str(port)], directory, stack)
        self._committed = topics.Committed(self.bootstrap, self.app_id, self.requests)
        stack.callback(self._committed.close)

    def requests_taken(self) -> int:
        """Count the requests whose offsets are committed, which is after they are in the set."""
        return self._committed.total()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
