"""What each shape of request is decoded to, and travels as, is frozen: older and newer workers read it."""

import pytest

from punctual.contract import native, request
from tests.punctual.contract.shapes import COMMANDS, FROZEN, SCHEDULES


@pytest.mark.parametrize("name", [*SCHEDULES, *COMMANDS])
def test_the_wire_form_of_each_shape_is_frozen(name: str) -> None:
    asked = native.decode((SCHEDULES | COMMANDS)[name])

    assert request.encode(asked).hex() == FROZEN[name]
    assert request.decode(bytes.fromhex(FROZEN[name])) == asked
