"""Each part takes only the sections of the settings that it needs: few files know all settings."""

import ast
from pathlib import Path

_APP = Path(__file__).parents[2] / "app"
#: Files that name the whole `Settings`: the commands, and what puts parts together or needs most sections.
LIMIT = 40


def test_few_files_know_all_settings() -> None:
    found = [path for path in sorted(_APP.rglob("*.py")) if _knows_all(path.read_text("utf-8"))]

    assert 0 < len(found) <= LIMIT, [str(path.relative_to(_APP)) for path in found]


def test_an_import_of_all_settings_is_found() -> None:
    assert _knows_all("from app.settings.settings import Settings")
    assert not _knows_all("from app.settings.topics import TopicSettings")


def _knows_all(source: str) -> bool:
    return "Settings" in source and any(
        isinstance(node, ast.ImportFrom)
        and node.module == "app.settings.settings"
        and "Settings" in {name.name for name in node.names}
        for node in ast.walk(ast.parse(source))
    )
