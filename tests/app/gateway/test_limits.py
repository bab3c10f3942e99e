"""How much JSON may unpack to."""

import pytest

from app.gateway.json_input import check_json
from app.gateway.problem import Problem
from app.listening.limits import JSON_PARTS


@pytest.mark.parametrize("part", [b",", b"[", b"{"])
def test_so_many_parts_may_be_and_no_more(part: bytes) -> None:
    check_json(part * JSON_PARTS)

    with pytest.raises(Problem, match="commas and brackets") as refused:
        check_json(part * (JSON_PARTS + 1))
    assert refused.value.status == 413


def test_what_is_long_and_of_few_parts_may_be() -> None:
    check_json(b'{"to":"orders","value":"' + b"x" * 4_000_000 + b'"}')
