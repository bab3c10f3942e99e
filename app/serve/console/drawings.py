"""What was drawn of an answer, for as long as the answer is the same: drawing takes most of a page's time."""

from collections.abc import Callable

from app.serve.console.api import Answer
from app.serve.console.readers import Readers


class Drawings:
    """Keeps the last drawing of each reader."""

    def __init__(self) -> None:
        self._kept = Readers[tuple[Answer, str]]()

    def drawn(self, who: object, answer: Answer, caller: Callable[[], str]) -> str:
        """Return what `caller`, a part of a template, draws of an answer; it is asked only if that has changed."""
        kept = self._kept.get(who)
        drawing = kept[1] if kept is not None and kept[0] == answer else caller()
        self._kept.keep(who, (answer, drawing))
        return drawing
