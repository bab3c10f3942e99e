"""What can go wrong with a command, and the exit code of each: the message says what to do next.

CommandError      failed
├── WrongUse      the arguments make no sense
├── NotFound      there is no such message, job or topic
├── TooLate       the message has changed, or has been delivered
├── Unreachable   no worker or broker answers, or it cannot at the moment
├── NotAllowed    somebody else may do that
└── Incomplete    done, but for what could not be asked
"""

from typing import ClassVar

from punctual.cli.exits import Exit


class CommandError(Exception):
    """A command that has not done what it was asked for: a sentence."""

    code: ClassVar[Exit] = Exit.FAILED


class WrongUse(CommandError):
    """Arguments that make no sense."""

    code = Exit.WRONG_USE


class NotFound(CommandError):
    """There is no such thing."""

    code = Exit.NOT_FOUND


class TooLate(CommandError):
    """What was to be changed has changed, or ended, before."""

    code = Exit.TOO_LATE


class Unreachable(CommandError):
    """Nobody answers, or only that it cannot at the moment."""

    code = Exit.UNREACHABLE


class NotAllowed(CommandError):
    """Who asks may not do that, or is not known."""

    code = Exit.NOT_ALLOWED


class Incomplete(CommandError):
    """Something is missing from what was done, or told."""

    code = Exit.INCOMPLETE
