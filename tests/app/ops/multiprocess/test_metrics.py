"""The metrics of several processes are one exposition."""

from prometheus_client.parser import text_string_to_metric_families

from app.ops.multiprocess.metrics import merged, own

ONE = """# HELP a_total What a is.
# TYPE a_total counter
a_total 1.0
# HELP b What b is.
# TYPE b gauge
b{to="x y",from="{"} 2.0
"""
TWO = """# HELP b What b is.
# TYPE b gauge
b{to="z"} 3.0
# HELP c What c is.
# TYPE c histogram
c_bucket{le="+Inf"} 4.0
c_count 4.0
c_sum 5.0
"""


def test_each_sample_says_whose_it_is_and_families_stay_together() -> None:
    families = {family.name: family for family in text_string_to_metric_families(merged({1: ONE, 2: TWO}))}

    found = {
        (sample.name, frozenset(sample.labels.items()), sample.value)
        for family in families.values()
        for sample in family.samples
    }
    assert found == {
        ("a_total", frozenset({("process", "1")}), 1.0),
        ("b", frozenset({("process", "1"), ("to", "x y"), ("from", "{")}), 2.0),
        ("b", frozenset({("process", "2"), ("to", "z")}), 3.0),
        ("c_bucket", frozenset({("process", "2"), ("le", "+Inf")}), 4.0),
        ("c_count", frozenset({("process", "2")}), 4.0),
        ("c_sum", frozenset({("process", "2")}), 5.0),
    }
    assert {name: family.type for name, family in families.items()} == {"a": "counter", "b": "gauge", "c": "histogram"}


def test_facts_that_are_known_from_outside_are_added() -> None:
    families = {
        family.name: family for family in text_string_to_metric_families(own({1: True, 2: False}, {1: 0, 2: 3}))
    }

    assert [sample.value for sample in families["delay_process_up"].samples] == [1, 0]
    assert [sample.value for sample in families["delay_process_restarts"].samples] == [0, 3]


def test_only_a_line_feed_ends_a_line() -> None:
    """A name with what Python takes for the end of a line would forge a sample."""
    for end in ("\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r"):
        text = f'# HELP b What b is.\n# TYPE b gauge\nb{{to="x{end}b 99{end}# HELP c Forged."}} 2.0\n'
        assert merged({1: text}) == text.replace("b{", 'b{process="1",')
