"""Exit codes of commands, on which scripts can rely (docs/reference/cli.md#exit-codes)."""

from enum import IntEnum


class Exit(IntEnum):
    """An exit code."""

    DONE = 0
    FAILED = 1
    WRONG_USE = 2
    NOT_FOUND = 3
    TOO_LATE = 4
    UNREACHABLE = 5
    NOT_ALLOWED = 6
    INCOMPLETE = 7
    INTERRUPTED = 130
    PIPE_CLOSED = 141
