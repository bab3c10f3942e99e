"""Passwords are kept as hashes."""

import pytest

from app.serve.access.password import Hash
from tests.app.serve.access.conftest import hashed


def test_a_hash_fits_only_its_password_and_survives_a_round_trip() -> None:
    made = hashed("correct horse")
    assert Hash.parse(str(made)) == made
    assert made.fits("correct horse")
    assert not made.fits("correct horse ")
    assert str(hashed("correct horse")) != str(made)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "correct horse",
        "$2b$12$abcdefghijklmnopqrstuv",
        str(hashed("x")).replace("ln=4", "ln=17"),
        str(hashed("x")).replace("r=1", "r=9"),
        str(hashed("x")).replace("p=1", "p=0"),
        str(hashed("x"))[:-1],
        str(hashed("x")) + "\n",
    ],
    ids=["empty", "a password", "bcrypt", "memory", "blocks", "parallel", "short", "long"],
)
def test_invalid_and_too_expensive_hashes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="hash"):
        Hash.parse(text)
