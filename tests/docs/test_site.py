"""The documentation is built as a site without dead links, which loads no files from other sites."""

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.harness.waiting import PROGRAM_S
from tests.harness.worker import ROOT

pytestmark = pytest.mark.slow

#: Words that readers search for.
SEARCHED = """permission, rollback, troubleshooting, throughput, latency, maximum, limits, ordering, deduplication, dlq,
dead letter queue, autoscaling, compatibility, faq, time zone, node, gdpr, erase, priority, rate limit""".replace(
    "\n", " "
).split(", ")
#: Elements that make a browser fetch a file, and the attribute with its address.
_FETCHES = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


def build(tree: Path, site: Path) -> "subprocess.CompletedProcess[str]":
    command = [str(Path(sys.executable).with_name("mkdocs")), "build", "--site-dir", str(site)]
    command += ["--config-file", str(tree / "docs/site/mkdocs.yml")]
    env = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, env=env, check=False, capture_output=True, text=True, timeout=PROGRAM_S)


class Fetched(HTMLParser):
    """Collects the addresses that a browser fetches for a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        if tag in _FETCHES and said.get("rel") != "canonical":
            self.addresses.append(said.get(_FETCHES[tag]) or "")


def test_the_site_is_built_and_loads_no_file_from_elsewhere(tmp_path: Path) -> None:
    built = build(ROOT, tmp_path)
    assert built.returncode == 0, built.stderr

    pages = {page.relative_to(tmp_path).as_posix(): page.read_text("utf-8") for page in tmp_path.rglob("*.html")}
    assert {"index.html", "tutorial.html", "CHANGELOG.html", "decisions/index.html"} <= set(pages)
    fetched = {address for page in pages.values() for address in Fetched(page).addresses}
    assert "images/home.png" in fetched
    assert not [address for address in fetched if re.match(r"\w+:|//", address)]
    sheets = [sheet.read_text("utf-8") for sheet in tmp_path.rglob("*.css")]
    assert sheets
    assert not [sheet for sheet in sheets if re.search(r"@import|url\([\"']?(?:\w+:)?//", sheet)]
    _is_found_by_search(json.loads((tmp_path / "search/search_index.json").read_text("utf-8")))
    _is_markdown_too(tmp_path)


def _is_found_by_search(index: Any) -> None:
    text = " ".join(entry["title"] + " " + entry["text"] for entry in index["docs"]).lower()
    assert not [word for word in SEARCHED if word not in text]


def _is_markdown_too(site: Path) -> None:
    listed = re.findall(r"^- \[.+\]\((.+)\)$", (site / "llms.txt").read_text("utf-8"), re.MULTILINE)
    assert {"README.md", "tutorial.md", "how-to/retry.md"} <= set(listed)
    assert not [page for page in listed if not (site / page).read_text("utf-8").lstrip().startswith("# ")]


def test_a_link_a_heading_and_a_page_that_are_not_there_end_the_build(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for page in ROOT.glob("*"):
        if page.is_file():
            shutil.copy(page, tmp_path)
    broken = ["how-to/nowhere.md", *(f"{page}#nothing" for page in ("how-to/retry.md", "../README.md"))]
    (tmp_path / "docs/explanation/lost.md").write_text("# Lost\n", "utf-8")
    with (tmp_path / "docs/tutorial.md").open("a") as tutorial:
        tutorial.write("".join(f"[there]({link})\n" for link in broken))

    said = build(tmp_path, tmp_path / "site")

    assert said.returncode != 0
    warnings = [line for line in said.stderr.splitlines() if line.startswith("WARNING")]
    assert len([line for line in warnings if "how-to/nowhere.md" in line or "#nothing" in line]) == 3
    assert "explanation/lost.md" in said.stderr
