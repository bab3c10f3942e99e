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


def shown(options: Options, show: Callable[[], Exit]) -> Exit:
    """Show it as often as `--watch` says, and return what the last time ended with.

    Whoever watches is told of a worker that does not answer, or of partitions that none has at the moment, and sees
    what comes when they do. Spans in `options` count from when each time begins.
    """
    if options.watch is None:
        return show()
    while True:
        if sys.stdout.isatty():
            sys.stdout.write(_CLEAR)
        vars(options).update(vars(options.read_again()))
        try:
            show()
        except (Unreachable, Incomplete) as error:
            say(f"{error}. Trying again in {options.watch:g} s")
        if options.format == "table" and not sys.stdout.isatty():
            write("")
        sys.stdout.flush()
        time.sleep(options.watch)
