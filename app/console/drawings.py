"""What was drawn of an answer, for as long as the answer is the same: drawing takes most of a page's time."""

from collections.abc import Callable
from typing import Final

from app.console.api import Answer

#: Readers and what they asked for, of whom the last drawing is kept.
_KEPT: Final = 100


class Drawings:
    """Keeps the last drawing of each reader."""

    def __init__(self) -> None:
        self._kept: dict[object, tuple[Answer, str]] = {}

    def of(self, who: object, answer: Answer) -> Callable[[Callable[[], str]], str]:
        """Return what a template calls around a drawing of an answer: it draws only what it has not drawn for them."""

        def drawn(caller: Callable[[], str]) -> str:
            before, drawing = self._kept.pop(who, (None, ""))
            if before != answer:
                drawing = caller()
            self._kept[who] = answer, drawing
            if len(self._kept) > _KEPT:
                del self._kept[next(iter(self._kept))]
            return drawing

        return drawn
