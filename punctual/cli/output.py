"""What a command's output can do to it: be closed, full, of another encoding, or read no more."""

import errno
import os
import sys
from collections.abc import Callable
from io import TextIOWrapper
from typing import Final

from punctual.cli.exits import Exit
from punctual.cli.terminal import say

_UNWRITABLE: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}


def with_output(run: Callable[[], int]) -> int:
    """Run a command and write its output out. Return its exit code, or that of an output that cannot be written."""
    _prepare()
    try:
        try:
            return run()
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        say("")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        _abandon()
        return Exit.PIPE_CLOSED
    except OSError as error:  # those of files and connections are sentences by now
        if error.errno not in _UNWRITABLE:
            raise
        _abandon()
        say(f"the output cannot be written: {error.strerror}. The command may have taken effect all the same")
        return Exit.FAILED


def _prepare() -> None:
    """Have output that is closed go nowhere, and write characters that the locale does not have as escapes."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - as long as the process
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _abandon() -> None:
    """Have what is still buffered go nowhere, so that the end of the process says nothing of it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
