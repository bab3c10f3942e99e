"""docs/reference/settings.md agrees with the settings."""

import re
from pathlib import Path

from app.settings.settings import Settings

_PAGE = Path(__file__).parents[2] / "docs/reference/settings.md"
_BROKER = {"KAFKA_PORT", "KAFKA_DATA", "KAFKA_VERSION", "KAFKA_JAVA"}
_DECLARED = {setting.metadata["env"]: setting.metadata for setting in Settings.declared()}


def _defaults(text: str) -> dict[str, str]:
    """Return the cell with the default of each setting in the tables of a text."""
    return dict(re.findall(r"^\| `([A-Z_]+)` \|(.*?)\|", text, re.MULTILINE))


def test_every_setting_is_documented_with_its_default() -> None:
    documented = _defaults(_PAGE.read_text("utf-8"))

    missing = _DECLARED.keys() - documented.keys()
    assert not missing, f"Add a row to docs/reference/settings.md for {missing}."
    assert not documented.keys() - _BROKER - _DECLARED.keys()
    for name, metadata in _DECLARED.items():
        default = f"`{metadata['default']}`" if metadata["default"] else ""
        assert documented[name].strip().startswith(default), f"The default of {name} is {default}."


def test_shared_settings_are_in_the_section_of_the_installation() -> None:
    [section] = re.findall(r"^## The installation$(.*?)^## ", _PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    shared = {name for name, metadata in _DECLARED.items() if metadata["shared"]}

    assert shared == _defaults(section).keys() - {"DELAY_APP_ID"}, (
        "The section 'The installation' of docs/reference/settings.md must have exactly the settings that are declared "
        "with shared=True."
    )
