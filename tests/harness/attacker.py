"""An attacker of a gateway: raw sockets, from a loopback address of its own."""

import contextlib
import socket
import time
from collections.abc import Iterator
from typing import Self

#: Other clients come from 127.0.0.1.
ADDRESS = "127.0.0.2"


class Attacker:
    """One connection to a port of this machine."""

    def __init__(self, port: int, address: str = ADDRESS, timeout_s: float = 10.0) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout_s, (address, 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def send(self, data: bytes) -> bool:
        """Send bytes; return whether the connection took them."""
        try:
            self._socket.sendall(data)
        except OSError:
            return False
        return True

    def answer(self, seconds: float = 10.0) -> bytes:
        """Return all bytes until the other side closes the connection, or sends none for `seconds`."""
        self._socket.settimeout(seconds)
        found = bytearray()
        with contextlib.suppress(OSError):
            while piece := self._socket.recv(65_536):
                found += piece
                if _is_whole(found):
                    break
        return bytes(found)

    def is_cut_off(self) -> bool:
        """Whether the other side has ended the connection."""
        self._socket.settimeout(0)
        try:
            while self._socket.recv(65_536):
                pass
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True


def _is_whole(answer: bytearray) -> bool:
    """Whether an answer is as long as its Content-Length says."""
    head, end, body = answer.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return bool(end and lengths) and len(body) >= int(lengths[0].partition(b":")[2])


def status(answer: bytes) -> int:
    """Return an answer's status, 0 if there is none."""
    words = answer.split(b" ", 2)
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


def every(seconds: float, until_s: float) -> Iterator[None]:
    """Yield now and again until a moment of the monotonic clock."""
    while time.monotonic() < until_s:
        yield
        time.sleep(seconds)
