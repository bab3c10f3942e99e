"""The page of figures has what the saved results say, and README what the page says."""

import re

from benchmarks import page
from benchmarks.result import DIRECTORY


def test_the_page_has_the_newest_full_results() -> None:
    paths = sorted(DIRECTORY.glob("*.json"))
    written = page.with_tables(page.PAGE.read_text(), page.newest(paths), page.without_kernel(paths))

    assert page.PAGE.read_text() == written


def test_the_readme_has_the_figure_of_the_page() -> None:
    readme = (page.PAGE.parents[2] / "README.md").read_text("utf-8")
    figures = page.PAGE.read_text("utf-8")

    [(p99, load)] = re.findall(r"p99 (\d+) ms late at (.+?) \(\[measured\]", readme)
    [median] = re.findall(rf"^\| {re.escape(load)}, late, p99 \|.*?\|.*?\| (\d+) \|", figures, re.MULTILINE)
    assert p99 == median
