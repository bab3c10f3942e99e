"""docs/explanation/how-it-works.md follows a message: its functions are called in the order of the page."""

import re
from pathlib import Path

import pytest

from tests.structure.trace import PLAIN, WITH_OPTIONS, calls_of

_TREE = Path(__file__).parents[2]
_PAGE = (_TREE / "docs/explanation/how-it-works.md").read_text("utf-8")
_TOUR = _PAGE.partition("## One message")[2].partition("### Plain requests")[0]
#: The simulation has no consumer, engine and sender.
_NOT_SIMULATED = {"Engine.hand_over"}
#: Maximum number of files on the path of a request from its arrival to the end of its delivery.
_MOST_FILES = {"plain": 36, "with options": 42}
_ROOMS = {"__init__.py", "__pycache__", "py.typed"}


def test_the_tour_names_functions_in_the_order_of_their_calls() -> None:
    named = [name for name in re.findall(r"`([A-Z]\w+\.\w+)`", _TOUR) if name not in _NOT_SIMULATED]
    called = list(dict.fromkeys(call.function for call in calls_of(WITH_OPTIONS)))

    assert len(named) > 10
    assert [name for name in named if name not in called] == []
    # The due loop also reads the table in its first cycle, before the message is due.
    order = [name for name in named if not name.startswith(("DueLoop", "StoreReads.due", "Dispatcher.send"))]
    assert order == sorted(order, key=called.index)


def test_the_tour_has_no_more_files_than_it_says() -> None:
    [said] = re.findall(r"[Aa]bout (\d+) files take part", _TOUR)
    files = {call.file for call in calls_of(WITH_OPTIONS)}

    assert abs(len(files) - int(said)) <= 10


@pytest.mark.parametrize(("request_", "headers"), [("plain", PLAIN), ("with options", WITH_OPTIONS)])
def test_a_request_passes_few_files(request_: str, headers: dict[str, str]) -> None:
    files = sorted({call.file for call in calls_of(headers)})

    assert len(files) <= _MOST_FILES[request_], files


def test_files_of_the_tour_are_where_it_says() -> None:
    for step in re.split(r"^\d+\. ", _TOUR, flags=re.MULTILINE)[1:]:
        folders = [_TREE, *(_TREE / folder for folder in re.findall(r"^\*\*[\w ]+\*\*, `([\w/]+)`", step))]
        for file in re.findall(r"`([\w/]+\.py)`", step):
            assert any((folder / file).is_file() for folder in folders), file


def test_each_room_of_the_worker_is_explained_where_newcomers_look() -> None:
    rooms = {path.name for path in (_TREE / "app").iterdir()} - _ROOMS
    docstring = (_TREE / "app/__init__.py").read_text("utf-8").split('"""')[1]
    contributing = (_TREE / "CONTRIBUTING.md").read_text("utf-8")

    for room in rooms:
        assert re.search(rf"^    {re.escape(room)} ", docstring, re.MULTILINE), room
        assert f"`app/{room}" in contributing, room
        assert f"`app/{room}`" in _PAGE, room
