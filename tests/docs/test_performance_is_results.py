"""The page of figures has what the saved results say."""

from benchmarks import page
from benchmarks.result import DIRECTORY


def test_the_page_has_the_newest_full_results() -> None:
    results = page.newest(sorted(DIRECTORY.glob("*.json")))

    assert page.PAGE.read_text() == page.with_tables(page.PAGE.read_text(), results)
