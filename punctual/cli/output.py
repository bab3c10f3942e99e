"""Problems with a command's output: it can be closed, full, in another encoding, or without a reader."""

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
    """Run a command and flush its output. Return its exit code, or one for output that cannot be written."""
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
    except OSError as error:  # errors of files and connections have become sentences before
        if error.errno not in _UNWRITABLE:
            raise
        _abandon()
        say(f"the output cannot be written: {error.strerror}. The command may have taken effect all the same")
        return Exit.FAILED


def _prepare() -> None:
    """Discard output that is closed, and write characters that the locale does not have as escapes."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - as long as the process
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _abandon() -> None:
    """Discard buffered output, so that the process exits without an error about it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
