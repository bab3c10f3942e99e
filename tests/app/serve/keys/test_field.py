"""The header Idempotency-Key as RFC 8941 has strings."""

import pytest

from app.serve.keys.once import key_of
from app.serve.web.problem import Problem


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('"8e03978e-40d5-43dd-bc93-6894a57f9324"', "8e03978e-40d5-43dd-bc93-6894a57f9324"),
        ('  "a b"  ', "a b"),
        (r'"say \"hi\" \\ there"', r'say "hi" \ there'),
        ('"a";version=1', "a"),
        ('"a"; v="x;y\\""; w', "a"),
        (f'"{"x" * 255}"', "x" * 255),
    ],
)
def test_a_string_in_quotes_is_a_key(line: str, key: str) -> None:
    assert key_of([line]) == key


@pytest.mark.parametrize(
    "line",
    [
        "",
        "8e03978e",
        "'a'",
        '"a',
        'a"',
        '""',
        '"a" b',
        '"a", "b"',
        '"é"',
        '"a\tb"',
        r'"a\b"',
        '"a";',
        '"a";V=1',
        f'"{"x" * 256}"',
    ],
)
def test_other_values_are_refused_without_showing_them(line: str) -> None:
    with pytest.raises(Problem) as error:
        key_of([line])

    assert error.value.kind.name == "idempotency-key"
    assert "x" * 256 not in str(error.value)
    assert "8e03978e-40d5-43dd" not in str(error.value)


def test_two_keys_are_refused() -> None:
    with pytest.raises(Problem, match="2 Idempotency-Key headers") as error:
        key_of(['"a"', '"a"'])

    assert error.value.kind.name == "idempotency-key"
