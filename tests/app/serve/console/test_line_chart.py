"""The chart of the last hour."""

from app.serve.console.home import WIDTH, _chart, line_chart


def test_a_single_minute_is_a_line_within_the_drawing() -> None:
    drawn = line_chart({"in": [None, None, 5.0]})
    [first, second] = drawn.lines[0].runs[0].split()
    assert float(first.partition(",")[0]) < float(second.partition(",")[0]) == WIDTH


def test_the_chart_of_a_new_worker_has_its_first_minutes() -> None:
    minute = {"in": 1.0, "out": 2.0}
    assert [_chart([minute] * count, come="in", gone="out").minutes for count in (1, 10, 11, 16, 31, 60)] == [
        10,
        10,
        15,
        30,
        60,
        60,
    ]
