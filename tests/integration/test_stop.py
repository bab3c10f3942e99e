"""A worker that stops while it is busy gives its partitions away at once, and ends without a traceback."""

import socket
import time
from pathlib import Path

from tests.harness.worker import Worker, eventually
from tests.integration.installation import new_app_id, topics_removed

#: A worker waits 15 s for the rest of a body.
_SLOW_S = 15.0
_UNFINISHED = (
    b"POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
)


def test_a_request_that_takes_long_holds_up_neither_the_handover_nor_the_end(bootstrap: str, tmp_path: Path) -> None:
    app_id = new_app_id("stop")
    with topics_removed(bootstrap, app_id), Worker(bootstrap, app_id, tmp_path / "data") as worker:
        worker.start().wait_ready()
        with socket.create_connection(("127.0.0.1", worker.port)) as slow:
            slow.sendall(_UNFINISHED)
            time.sleep(0.5)  # it is being read
            worker.terminate()
            began = time.monotonic()
            eventually(lambda: "left the group: NoError" in worker.log, 60, "leaving the group")
            assert worker.alive, "it has not waited for the request at all"
            left_s = time.monotonic() - began
            assert worker.wait_dead(60) == 0
            ended_s = time.monotonic() - began
        assert "Traceback" not in worker.log
        assert left_s < ended_s - 2, "it has waited for the request with its partitions"
        assert ended_s < _SLOW_S, "it has waited until the request ended by itself"
