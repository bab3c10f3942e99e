"""docs/reference/dialects.md agrees with the dialects."""

import re
from pathlib import Path

from punctual.contract.dialects.dialects import DIALECTS, dialect_of
from punctual.contract.request import Reason
from tests.punctual.contract.refused import REFUSED

_PAGE = (Path(__file__).parents[2] / "docs/reference/dialects.md").read_text("utf-8")
_SECTIONS = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", _PAGE, re.MULTILINE | re.DOTALL))
#: What tests/punctual/contract/test_refusals.py has of native requests.
_NATIVE = {"malformed", "missing-destination", "missing-due", "ambiguous-due", "bad-id"}


def _cells(column: int) -> list[str]:
    rows = re.findall(r"^\| `[\w-]+` \|.*$", _PAGE.partition("\n## ")[0], re.MULTILINE)
    return [re.split(r" *\| *", row)[column] for row in rows]


def test_each_dialect_has_a_row_and_a_section() -> None:
    assert [cell.strip("`") for cell in _cells(1)] == list(DIALECTS)
    assert list(_SECTIONS) == list(DIALECTS)


def test_an_input_can_have_each_form_of_the_table() -> None:
    forms = [form for cell in _cells(2) for form in re.findall(r"`([^`]+)`", cell)]
    values = {"<topic>": "orders", "<header>": "after-ts", "<grace>": "PT5S"}
    for form in forms:
        assert dialect_of(re.sub(r"<\w+>", lambda match: values[match[0]], form)).name == form.partition(":")[0]
    assert len(forms) == sum(1 + len(set(dialect.options) - {"to"}) for dialect in DIALECTS.values())


def test_each_section_names_the_codes_by_which_its_dialect_refuses() -> None:
    for name, text in _SECTIONS.items():
        [sentence] = re.findall(r"^Refused as (.*?)\.", text, re.MULTILINE)
        can = {case.reason for case in REFUSED[name].values()} if name in REFUSED else _NATIVE
        assert set(re.findall(r"`([^`]+)`", sentence)) == can <= {reason.value for reason in Reason}, name


def test_each_section_says_what_differs() -> None:
    assert [name for name, text in _SECTIONS.items() if "Differences:" not in text] == ["native"]
