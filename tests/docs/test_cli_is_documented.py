"""docs/reference/cli.md documents every exit code. Its help of the commands is generated (generated.py)."""

import re

from punctual.cli.exits import Exit
from tests.docs.generated import CLI, TREE


def test_every_exit_code_is_documented() -> None:
    documented = re.findall(r"^\| (\d+) \|", (TREE / CLI).read_text("utf-8"), re.MULTILINE)

    assert [int(code) for code in documented] == [code.value for code in Exit]
