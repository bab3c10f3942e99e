"""docs/explanation/test-results.md has the counts of the saved runs, and no saved run broke a guarantee."""

from tests.chaos import report
from tests.chaos.scenario import scenarios

_RESULTS = report.load()


def test_the_tables_are_those_of_the_results() -> None:
    page = report.PAGE.read_text("utf-8")
    assert report.with_results(page, _RESULTS) == page


def test_no_result_breaks_the_promise() -> None:
    assert not [sentence for result in _RESULTS for sentence in result["faults"]]


def test_each_scenario_has_a_result_for_each_guarantee() -> None:
    saved = {(result["scenario"], result["guarantee"]) for result in _RESULTS}
    assert saved == {(one.name, guarantee) for one in scenarios() for guarantee in one.guarantees}
