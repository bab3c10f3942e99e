"""The findings about namespaces, with valid and with invalid facts."""

import pytest

from app.engine.reports.reader import NamespaceHoldings
from app.ops.doctor import namespaces
from app.ops.doctor.finding import Finding
from tests.app.ops.doctor.test_checks import facts, report, settings

INPUTS = {"DELAY_INPUTS": "orders-delays=native", "DELAY_NAMESPACES": "orders-delays=orders"}
SIGNED_IN = {"KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "KAFKA_SASL_USERNAME": "worker"}


def found(*reports: NamespaceHoldings, **env: str) -> list[Finding]:
    told = {number: report(number, namespaces={"orders": waiting}) for number, waiting in enumerate(reports)}
    return list(
        namespaces.check(settings(**{**INPUTS, **env}).kafka, settings(**{**INPUTS, **env}).topics, facts(reports=told))
    )


def test_without_namespaces_there_are_no_findings() -> None:
    assert list(namespaces.check(settings().kafka, settings().topics, facts())) == []


def test_without_logins_every_caller_may_write_to_every_namespace() -> None:
    warning, _ = found()
    assert (warning.level, warning.subject) == ("warning", "delay-requests")
    assert "let no team write to delay-requests, delay-forwards, delay-controls" in warning.sentence
    ok, _ = found(**SIGNED_IN)
    assert ok.level == "ok"
    assert "orders-delays" not in ok.sentence


@pytest.mark.parametrize(
    ("quota", "says"),
    [
        ("orders=messages:20", "the namespace orders holds 18 messages of 20"),
        ("orders=messages:100|bytes:1000", "the namespace orders holds 900 bytes of messages of 1,000"),
        ("orders=messages:0", "the namespace orders holds 18 messages of 0"),
        ("orders=remembered:10", "the namespace orders holds 9 remembered ids of 10"),
    ],
)
def test_a_quota_that_is_nearly_exhausted_is_reported(quota: str, says: str) -> None:
    [finding] = [
        one
        for one in found(NamespaceHoldings(10, 500, 9), NamespaceHoldings(8, 400), DELAY_QUOTAS=quota)
        if one.subject == "orders"
    ]
    assert finding.level == "warning"
    assert says in finding.sentence


def test_a_quota_with_room_is_fine() -> None:
    [finding] = [
        one for one in found(NamespaceHoldings(10, 500), DELAY_QUOTAS="*=messages:12") if one.subject == "orders"
    ]
    assert (finding.level, finding.sentence) == ("ok", "10 messages of the namespace orders are pending.")
