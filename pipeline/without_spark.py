"""The command line where Spark is not installed: it lists the commands, and says how to install Spark."""

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

_JOBS = Path(__file__).with_name("jobs")
_HOW = "The pipeline's commands need Spark, which is not installed here. `make install NAME=pipeline` installs it."


def main(arguments: Sequence[str]) -> int:
    """List the commands for `--help`; return the exit code: 0, or 1 for any command, because each needs Spark."""
    if set(arguments) & {"-h", "--help"}:
        sys.stdout.write("\n".join(["usage: python -m pipeline COMMAND", "", *commands(), "", _HOW, ""]))
        return 0
    sys.stderr.write(f"{_HOW}\n")
    return 1


def commands() -> Iterator[str]:
    """Yield a line for each command, read from the source of the jobs, because importing them needs Spark."""
    for file in sorted(_JOBS.glob("[!_]*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        if {"add_options", "run"} <= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}:
            yield f"  {file.stem:<11} {(ast.get_docstring(tree) or '').splitlines()[0]}"
