"""Pages of how-tos: their blocks of code, and their programs, run against an installation of a test."""

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

from tests.harness.waiting import PROGRAM_S
from tests.harness.worker import ROOT
from tests.integration.installation import Installation

Block = tuple[str, str]


def blocks(page: str) -> list[Block]:
    """Return language and text of each block of code on a page of docs/how-to."""
    found = re.findall(
        r"```(sh|python)\n(.*?)^ *```", (ROOT / "docs/how-to" / page).read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    return [(kind, dedent(text)) for kind, text in found]


def run_program(code: list[Block], installation: Installation, directory: Path, **topics: str) -> None:
    """Run the only Python program of a page, with the addresses of an installation, and its topics by their names."""
    [program] = [text for kind, text in code if kind == "python"]
    program = program.replace('"127.0.0.1:9092"', f'"{installation.bootstrap}", app_id="{installation.app_id}"')
    for name, topic in topics.items():
        program = program.replace(f'"{name}"', f'"{topic}"')
    file = directory / "program.py"
    file.write_text(program, "utf-8")
    subprocess.run([sys.executable, str(file)], cwd=ROOT, check=True, timeout=PROGRAM_S)
