"""The pages of figures show the saved results, and README shows a figure of those pages."""

import re

from benchmarks import page
from benchmarks.result import DIRECTORY

_PATHS = sorted(DIRECTORY.glob("*.json"))


def test_the_page_has_the_newest_full_results() -> None:
    written = page.with_tables(page.PAGE.read_text("utf-8"), page.newest(_PATHS), page.without_kernel(_PATHS))
    assert page.PAGE.read_text("utf-8") == written


def test_the_short_page_has_the_same_results() -> None:
    assert page.SHORT_PAGE.read_text("utf-8") == page.with_summary(
        page.SHORT_PAGE.read_text("utf-8"), page.newest(_PATHS)
    )


def test_the_readme_has_the_figure_of_the_page() -> None:
    readme = (page.PAGE.parents[2] / "README.md").read_text("utf-8")
    figures = page.PAGE.read_text("utf-8")

    [p99] = set(re.findall(r"p99 (?:is )?(\d+) ms", readme))
    [median] = re.findall(
        r"^\| 1,000/s with a million pending, lateness, p99 \|.*?\|.*?\| (\d+) \|", figures, re.MULTILINE
    )
    assert p99 == median
