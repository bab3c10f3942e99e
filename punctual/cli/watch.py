"""Shows output once, or repeatedly until Ctrl-C."""

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
    """Call `show` once and return its exit code, or repeat it with `--watch`.

    Each time the options are parsed again, so that `--due-to 15m` moves with the time. With `--watch`, an unreachable
    worker or missing partitions are reported, and the output goes on when they are back.
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
