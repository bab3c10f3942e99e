"""Errors of commands, and the exit code of each: the message says what to do next.

CommandError      failed
├── WrongUse      the arguments are invalid
├── NotFound      there is no such message, job or topic
├── TooLate       the message has changed, or has been delivered
├── Unreachable   no worker or broker answers, or it is unavailable
├── NotAllowed    the user has no permission, or is unknown
└── Incomplete    done, except for partitions that did not answer
"""

from typing import ClassVar

from punctual.cli.exits import Exit


class CommandError(Exception):
    """A command has failed; the message is a sentence."""

    code: ClassVar[Exit] = Exit.FAILED


class WrongUse(CommandError):
    """The arguments are invalid."""

    code = Exit.WRONG_USE


class NotFound(CommandError):
    """The message, job or topic does not exist."""

    code = Exit.NOT_FOUND


class TooLate(CommandError):
    """The message has changed or ended before the command."""

    code = Exit.TOO_LATE


class Unreachable(CommandError):
    """No worker or broker answers, or it is unavailable."""

    code = Exit.UNREACHABLE


class NotAllowed(CommandError):
    """The user has no permission, or is unknown."""

    code = Exit.NOT_ALLOWED


class Incomplete(CommandError):
    """A part of the work or of the output is missing."""

    code = Exit.INCOMPLETE
