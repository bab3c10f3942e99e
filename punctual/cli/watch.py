"""Shows something once, or again and again until Ctrl-C."""

import sys
import time
from collections.abc import Callable
from typing import Final

from punctual.cli.errors import Incomplete, Unreachable
from punctual.cli.exits import Exit
from punctual.cli.parser import Options
from punctual.cli.terminal import say, write

_CLEAR: Final = "\x1b[H\x1b[2J\x1b[3J"


def shown(options: Options, show: Callable[[Options], Exit]) -> Exit:
    """Show it as often as `--watch` says, and return what the last time ended with.

    Each time it is shown by the options as they are to be read then: `--due-to 15m` goes with the time. Whoever watches
    is told of a worker that does not answer, and of what is missing, and sees what comes when it does.
    """
    if options.watch is None:
        return show(options)
    while True:
        if sys.stdout.isatty():
            sys.stdout.write(_CLEAR)
        try:
            show(options)
        except (Unreachable, Incomplete) as error:
            say(f"{error}. Trying again in {options.watch:g} s")
        if options.format == "table" and not sys.stdout.isatty():
            write("")
        sys.stdout.flush()
        time.sleep(options.watch)
        options = options.anew()
