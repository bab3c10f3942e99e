"""An answer is drawn again only when it has changed, and for each reader."""

from app.serve.console.api import JsonAnswer
from app.serve.console.home import Drawings


def test_an_answer_is_drawn_once_for_each_reader_until_it_changes() -> None:
    drawings, drawn = Drawings(), list[int]()

    def draw() -> str:
        drawn.append(1)
        return f"drawing {len(drawn)}"

    def seen(who: str, total: int) -> str:
        return drawings.draw(who, JsonAnswer(200, {"buckets": [{"total": total}]}), draw)

    assert [seen("ann", 1), seen("ann", 1), seen("bob", 1), seen("ann", 2), seen("ann", 1), seen("bob", 1)] == [
        "drawing 1",
        "drawing 1",
        "drawing 2",
        "drawing 3",
        "drawing 4",
        "drawing 2",
    ]


def test_readers_are_forgotten_after_a_time() -> None:
    drawings, same = Drawings(), JsonAnswer(200, {})
    for number in range(200):
        drawings.draw(number, same, lambda: "old")
    assert drawings.draw(199, same, lambda: "new") == "old"
    assert drawings.draw(0, same, lambda: "new") == "new"
