"""How long the due loop sleeps at most."""

from typing import Final

#: A wall clock that jumps does not wake a monotonic timer.
LONGEST_S: Final = 0.5
