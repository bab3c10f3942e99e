"""What follows from what a provider says of somebody: a role, and the namespaces in which it holds."""

import re

import pytest

from app.serve.access.caller import Grant
from app.serve.access.claims import RoleRules

THERE = ("team-a", "team-b", "team-c")
RULES = "groups:sre=admin,a-ops=operator@team-a,b-ops=operator@team-b+team-c,a-look=viewer@team-a,staff=viewer"


@pytest.mark.parametrize(
    ("groups", "grant"),
    [
        (["sre"], Grant("admin")),
        (["a-ops"], Grant("operator", ("team-a",))),
        (["b-ops", "a-ops"], Grant("operator", ("team-a", "team-b", "team-c"))),
        (["a-look"], Grant("viewer", ("team-a",))),
        (["a-look", "staff"], Grant("viewer")),
        # The highest role counts alone: what a lower one would show beside is not part of it.
        (["a-look", "b-ops"], Grant("operator", ("team-b", "team-c"))),
        (["staff", "a-ops"], Grant("operator", ("team-a",))),
        (["sales"], None),
        ([], None),
    ],
    ids=str,
)
def test_the_highest_role_counts_with_the_namespaces_of_all_rules_that_give_it(
    groups: list[str], grant: Grant | None
) -> None:
    assert RoleRules.parse(RULES, THERE).grant({"groups": groups}) == grant


def test_everybody_may_be_bound_to_a_namespace() -> None:
    assert RoleRules.parse("*=viewer@team-a", THERE).grant({}) == Grant("viewer", ("team-a",))


@pytest.mark.parametrize(
    ("text", "grant"),
    [
        ("groups:sre=admin@team-a,sre=admin@team-b", Grant("admin", ("team-a", "team-b"))),
        ("groups:sre=admin@team-a,sre=admin", Grant("admin")),
        ("groups:sre=admin,sre=viewer", Grant("admin")),
        ("groups:sre=viewer,sre=admin@team-a", Grant("admin", ("team-a",))),
        ("*=viewer@team-a,*=viewer@team-b", Grant("viewer", ("team-a", "team-b"))),
    ],
)
def test_several_rules_about_one_value_all_count(text: str, grant: Grant) -> None:
    assert RoleRules.parse(text, THERE).grant({"groups": ["sre", "sre"]}) == grant


@pytest.mark.parametrize(
    ("text", "claim", "value"),
    [
        ("[cognito:groups]:sre=admin", "cognito:groups", "sre"),
        (" [https://x.example/roles]: sre=admin", "https://x.example/roles", "sre"),
        ("[groups]:urn:x:sre=admin", "groups", "urn:x:sre"),
        ("groups:sre=viewer,urn:x:sre=admin", "groups", "urn:x:sre"),
    ],
)
def test_a_claim_whose_name_has_a_colon_stands_in_brackets(text: str, claim: str, value: str) -> None:
    assert RoleRules.parse(text).grant({claim: [value]}) == Grant("admin")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cognito:groups:sre=admin", "'cognito:groups:sre' has more than one colon. Put the claim in brackets"),
        ("https://x/roles:sre=admin", "'https://x/roles:sre' has more than one colon. Put the claim in brackets"),
        ("[cognito:groups:sre=admin", "']:' is missing after the claim"),
        ("[]:sre=admin", "it has no claim"),
        ("groups:ops=operator@team-d", "there is no namespace 'team-d'; DELAY_NAMESPACES has team-a, team-b, team-c"),
        ("groups:ops=operator@", "there is no namespace ''"),
        ("groups:ops=operator@team-a@team-b", "there is no namespace 'team-a@team-b'"),
        ("groups:ops=owner@team-a", "is not of the form value=role"),
    ],
)
def test_rules_that_make_no_sense_say_what_is_wrong(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        RoleRules.parse(text, THERE)
