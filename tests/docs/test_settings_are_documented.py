"""docs/reference/settings.md agrees with the settings."""

import re
from pathlib import Path

from app.engine.reports.agreement import fingerprint
from app.settings.settings import Settings

_PAGE = Path(__file__).parents[2] / "docs/reference/settings.md"
_BROKER = {"KAFKA_PORT", "KAFKA_DATA", "KAFKA_VERSION", "KAFKA_JAVA"}


def _documented() -> set[str]:
    return set(re.findall(r"^\| `([A-Z_]+)` \|", _PAGE.read_text("utf-8"), re.MULTILINE))


def test_every_setting_is_documented() -> None:
    assert {setting.metadata["env"] for setting in Settings.declared()} <= _documented()


def test_every_documented_setting_exists() -> None:
    assert _documented() - _BROKER == {setting.metadata["env"] for setting in Settings.declared()}


def test_what_workers_compare_is_what_the_page_says_is_the_same_for_all() -> None:
    [section] = re.findall(r"^## The installation$(.*?)^## ", _PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    said = set(re.findall(r"^\| `([A-Z_]+)` \|", section, re.MULTILINE))
    assert fingerprint(Settings.from_env({})).keys() == said - {"DELAY_APP_ID"}
