"""Users of a provider are not users in the access file."""

import pytest

from app.serve.access.entries import NAME
from app.serve.access.oidc import name_of


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"sub": "ann"}, "oidc:ann"),
        ({"sub": "ann", "preferred_username": "ann"}, "oidc:ann"),
        ({"sub": "anonymous"}, "oidc:anonymous"),
        ({"sub": "ann", "preferred_username": "bob"}, "bob (ann)"),
        ({"sub": "ann", "email": "b@example.com"}, "b@example.com (ann)"),
    ],
)
def test_a_user_of_a_provider_never_has_the_name_of_a_user_in_the_access_file(
    claims: dict[str, str], name: str
) -> None:
    assert name_of(claims) == name
    assert not NAME.fullmatch(name)
