"""The examples of docs/reference/http-api.md: curl commands, each with the answer that the page shows."""

import base64
import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.harness.waiting import PROGRAM_S
from tests.harness.worker import ROOT

PAGE = ROOT / "docs/reference/http-api.md"
#: The address of the examples.
ADDRESS = "http://127.0.0.1:6066"
_EXAMPLE = re.compile(r"^```sh\n(.*?)^```\n(?:\n```(json|text)\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
#: Stands for further members of an object or entries of an array.
_MORE = "…"
#: Objects with a member for each destination.
_BY_DESTINATION = "by"
#: curl's configuration: it writes the status to stderr.
_CURLRC = 'write-out = "%{stderr}%{http_code}\\n"\n'


class Example(NamedTuple):
    """A command, and the answer that the page shows: JSON, or another text."""

    command: str
    kind: str
    shown: str

    @property
    def answer(self) -> Any:
        """Return the JSON answer, with a member or an entry `…` where the page shortens it."""
        text = re.sub(rf"{_MORE}(\s*\}})", rf'"{_MORE}": 0\1', self.shown)
        return json.loads(re.sub(rf"{_MORE}(\s*\])", rf'"{_MORE}"\1', text))

    @property
    def route(self) -> tuple[str, str]:
        """Return method and path of the request."""
        method = re.search(r"-X (\w+)", self.command)
        address = re.search(r"http://[^/]+(/[^\s'?]+)", self.command)
        assert address, self.command
        return method[1] if method else ("POST" if " -d " in self.command else "GET"), address[1]

    def replaced(self, names: Mapping[str, str]) -> "Example":
        """Return the example with other names."""
        command, shown = self.command, self.shown
        for name, ours in names.items():
            command, shown = command.replace(name, ours), shown.replace(name, ours)
        return Example(command, self.kind, shown)

    def run(self, home: Path) -> tuple[int, str]:
        """Return status and body of the answer; `home` is a directory for curl's configuration."""
        (home / ".curlrc").write_text(_CURLRC)
        done = subprocess.run(
            ["bash", "-ec", self.command],  # noqa: S607
            env={**os.environ, "CURL_HOME": str(home)},
            capture_output=True,
            text=True,
            check=True,
            timeout=PROGRAM_S,
        )
        return int(done.stderr.split()[-1]), done.stdout


def encoded(text: str) -> str:
    """Return a text in base64, as in the record form."""
    return base64.b64encode(text.encode()).decode()


def examples(*sections: str, page: Path = PAGE) -> list[Example]:
    """Return the examples of a page, or those of some of its sections."""
    text = page.read_text("utf-8")
    parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
    wanted = [body for title, body in zip(parts[1::2], parts[2::2], strict=True) if title in sections]
    return [Example(*found) for found in _EXAMPLE.findall("".join(wanted) if sections else text)]


def differences(shown: Any, real: Any, place: str = "") -> list[str]:
    """Return the places of an answer whose member names differ from those on the page."""
    if isinstance(shown, dict):
        if not isinstance(real, dict):
            return [f"{place}: no object: {real!r:.80}"]
        if place.endswith(f".{_BY_DESTINATION}"):
            return []
        wanted, there = shown.keys() - {_MORE}, real.keys()
        wrong = wanted - there if _MORE in shown else wanted ^ there
        parts = [(shown[name], real[name], f"{place}.{name}") for name in wanted & there]
        found = [f"{place}.{name}" for name in sorted(wrong)]
        return found + [one for part in parts for one in differences(*part)]
    if isinstance(shown, list):
        entries = [(number, entry) for number, entry in enumerate(shown) if entry != _MORE]
        if not isinstance(real, list) or len(real) < len(entries):
            return [f"{place}: fewer entries: {real!r:.80}"]
        return [one for number, entry in entries for one in differences(entry, real[number], f"{place}[{number}]")]
    return []
