"""Rights: the narrowest that ACLs can say, and those of the page for operators."""

import re
from pathlib import Path

import pytest

from app.ops.doctor.acl import Acl, consumer_acls, gateway_acls, producer_acls, worker_acls
from app.settings.settings import Settings

PAGE = Path(__file__).parents[4] / "docs/how-to/operate.md"
ROW = re.compile(r"^\| (topic|group|transactional id)(, prefix)? \| `(\S+)` \| ([^|]+) \| (.+) \|$", re.MULTILINE)


def settings(**env: str) -> Settings:
    return Settings.from_env({"DELAY_APP_ID": "shop", "DELAY_DESTINATIONS": "orders", **env})


def destinations(patterns: str) -> set[tuple[str, str]]:
    found = worker_acls(settings(DELAY_DESTINATIONS=patterns))
    return {(acl.name, acl.pattern) for acl in found if acl.operations == ("Read", "Write")}


def test_the_page_for_operators_has_the_same_rights() -> None:
    text = PAGE.read_text("utf-8")
    for words, name in (("each of `DELAY_INPUTS`", "`extra`"), ("each destination", "`orders`"), ("<id>", "shop")):
        assert words in text
        text = text.replace(words, name)
    page = {
        Acl(kind, name, "prefixed" if prefix else "literal", tuple(operations.split(", ")), when)
        for kind, prefix, name, operations, when in ROW.findall(text)
    }
    env = {"DELAY_INPUTS": "extra=native", "DELAY_GUARANTEE": "exactly_once"}
    assert page == set(worker_acls(settings(**env)))


def test_at_least_once_needs_no_transactional_id() -> None:
    found = worker_acls(settings())
    assert {acl.resource for acl in found} == {"topic", "group"}
    assert [acl.operations for acl in found if acl.name == "orders"] == [("Read", "Write")]


@pytest.mark.parametrize(
    ("patterns", "named"),
    [
        ("orders,payments", {("orders", "literal"), ("payments", "literal")}),
        ("orders.*", {("orders.", "prefixed")}),
        ("orders-?-late", {("orders-", "prefixed")}),
        ("[ab]-late", {("*", "literal")}),
        ("orders.*,*", {("*", "literal")}),
        ("extra:orders|payments,other:orders", {("orders", "literal"), ("payments", "literal")}),
    ],
)
def test_a_pattern_of_destinations_becomes_the_narrowest_that_acls_can_say(
    patterns: str, named: set[tuple[str, str]]
) -> None:
    assert destinations(patterns) == named


def test_without_destinations_only_internal_topics_are_writable() -> None:
    assert {acl.name for acl in worker_acls(settings(DELAY_DESTINATIONS=""))} == {"shop-", "shop"}


def test_producers_write_to_inputs_only_and_readers_write_to_no_topic() -> None:
    both = settings(DELAY_INPUTS="extra=native")
    assert {(acl.name, acl.operations) for acl in producer_acls(both.topics)} == {
        ("shop-requests", ("Write",)),
        ("extra", ("Write",)),
    }
    assert {(acl.resource, acl.name, acl.operations) for acl in consumer_acls(both.destinations, "mail")} == {
        ("topic", "orders", ("Read",)),
        ("group", "mail", ("Read",)),
    }


def test_the_page_has_a_gateways_rights() -> None:
    page = (PAGE.parent / "idempotency-keys.md").read_text("utf-8")
    section = page[page.index("## Permissions") :]
    rows = re.findall(r"^\| (.+?) \| ([A-Z][A-Za-z, ]+) \|", section, re.MULTILINE)
    said = {(names.partition("`<id>-")[2].partition("`")[0] or names, operations) for names, operations in rows}
    granted = {
        (acl.name.removeprefix("shop-"), ", ".join(acl.operations))
        for acl in gateway_acls(settings(DELAY_DESTINATIONS="orders"))
    }
    assert said == {(name if name != "orders" else "each destination", operations) for name, operations in granted}


def test_a_gateway_writes_to_no_destination() -> None:
    granted = gateway_acls(settings(DELAY_INPUTS="extra=native"))

    writes = {acl.name for acl in granted if "Write" in acl.operations}
    assert writes == {"shop-requests", "extra", "shop-receipts", "shop-dead-letters"}
