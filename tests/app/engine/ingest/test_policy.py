"""Which requests may be accepted."""

import pytest

from app.engine.ingest.policy import Policy
from app.settings.settings import Settings
from punctual.contract.request import Refusal, Request
from tests.punctual.contract.records import NOW

FIVE_YEARS_MS = 1_827 * 86_400_000


def policy(**env: str) -> Policy:
    return Policy(Settings.from_env(env))


def asked(to: str = "orders", source: str = "delay-requests", **fields: object) -> Request:
    request = Request("schedule", "a", f"{source}-0-0", NOW, source, NOW + 1, to)
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def refused(rules: Policy, request: Request) -> Refusal:
    with pytest.raises(Refusal) as raised:
        rules.check(request, NOW)
    return raised.value


def test_only_listed_destinations_are_allowed() -> None:
    refusal = refused(policy(), asked())

    assert refusal.reason == "not-allowed"
    assert refusal.sentence == (
        "DELAY_DESTINATIONS does not allow topic 'orders' for requests on delay-requests. Add it there."
    )


@pytest.mark.parametrize(
    ("rules", "to", "allowed"),
    [
        ("*", "anything", True),
        ("orders", "orders", True),
        ("orders", "orders2", False),
        ("orders*,payments", "orders.eu", True),
        ("orders*,payments", "payments", True),
        ("orders*,payments", "refunds", False),
        ("order?", "orders", True),
        ("RememberedCommands", "orders", False),
        ("delay-requests:orders|refunds", "refunds", True),
        ("delay-requests:orders,other:refunds", "refunds", False),
        ("other:refunds,refunds", "refunds", True),
    ],
)
def test_patterns_allow_for_all_inputs_or_for_one(rules: str, to: str, *, allowed: bool) -> None:
    checked = policy(DELAY_DESTINATIONS=rules)
    if allowed:
        checked.check(asked(to), NOW)
    else:
        assert refused(checked, asked(to)).reason == "not-allowed"


def test_each_input_has_its_own_destinations() -> None:
    rules = policy(DELAY_DESTINATIONS="extra:orders", DELAY_INPUTS="extra=native")
    rules.check(asked(source="extra"), NOW)

    assert refused(rules, asked()).reason == "not-allowed"


@pytest.mark.parametrize(
    "to",
    [
        "delay-requests",
        "extra",
        "delay-forwards",
        "delay-delays-changelog",
        "delay-events",
        "delay-progress",
        "delay-dead-letters",
        "delay-cold",
        "delay-controls",
    ],
)
def test_internal_topics_are_never_allowed_on_our_own_cluster(to: str) -> None:
    rules = policy(DELAY_DESTINATIONS=f"*,{to}", DELAY_INPUTS="extra=native", DELAY_CLUSTERS="emea=127.0.0.1:1")
    refusal = refused(rules, asked(to))

    assert refusal.reason == "not-allowed"
    assert refusal.sentence == f"{to!r} is an internal topic. Use a topic of your own."
    rules.check(asked(to, cluster="emea"), NOW)


def test_kafkas_own_topics_match_no_pattern_but_a_setting_may_name_one() -> None:
    for cluster in (None, "emea"):
        rules = policy(DELAY_DESTINATIONS="*,__*,__anything", DELAY_CLUSTERS="emea=127.0.0.1:1")
        rules.check(asked("__anything", cluster=cluster), NOW)
        refusal = refused(rules, asked("__consumer_offsets", cluster=cluster))
        assert refusal.reason == "not-allowed"
        assert refusal.sentence == "'__consumer_offsets' is an internal topic. Use a topic of your own."


@pytest.mark.parametrize("to", ["a/b", "x" * 250, "ü", "a b", "a,b", "\0", "x" * 40_000, "orders\n"])
def test_a_name_that_no_topic_can_have_is_refused_before_any_broker_is_asked(to: str) -> None:
    refusal = refused(policy(DELAY_DESTINATIONS="*"), asked(to))

    assert refusal.reason == "unknown-topic"
    assert len(refusal.sentence) < 400


def test_only_clusters_that_are_configured_are_known() -> None:
    rules = policy(DELAY_DESTINATIONS="*", DELAY_CLUSTERS="emea=127.0.0.1:1")
    rules.check(asked(cluster="emea"), NOW)
    refusal = refused(rules, asked(cluster="apac"))

    assert refusal.reason == "unknown-cluster"
    assert "there is no cluster 'apac'. Add it to DELAY_CLUSTERS" in refusal.sentence


def test_a_message_may_be_due_in_five_years() -> None:
    rules = policy(DELAY_DESTINATIONS="*")
    rules.check(asked(due_ms=NOW + FIVE_YEARS_MS), NOW)
    refusal = refused(rules, asked(due_ms=NOW + FIVE_YEARS_MS + 1))

    assert refusal.reason == "too-far"
    assert refusal.sentence == (
        "it is due in 157852800001 ms, but the maximum delay is 157852800000 ms (five years). Send it later."
    )


def test_the_limit_counts_from_now_however_old_the_producers_own_timestamp_is() -> None:
    rules = policy(DELAY_DESTINATIONS="*")
    rules.check(asked(stamp_ms=NOW - 2 * FIVE_YEARS_MS, due_ms=NOW + 500), NOW)
    rules.check(asked(stamp_ms=NOW + 50, due_ms=NOW + FIVE_YEARS_MS + 50), NOW)  # brokers' clocks differ

    assert refused(rules, asked(stamp_ms=NOW - 1_000, due_ms=NOW + FIVE_YEARS_MS + 1)).reason == "too-far"


def test_a_command_must_not_move_a_message_too_far_either() -> None:
    rules = policy()

    assert refused(rules, asked(op="reschedule", due_ms=NOW + FIVE_YEARS_MS + 1)).reason == "too-far"
    rules.check(asked(op="cancel", due_ms=0), NOW)


def test_no_due_time_outgrows_its_key() -> None:
    assert refused(policy(DELAY_DESTINATIONS="*"), asked(due_ms=1 << 55)).reason == "too-far"


@pytest.mark.parametrize(
    ("stamp", "said"), [(-1, "is missing"), (NOW + 60_001, "is more than a minute ahead"), (1 << 62, "ahead")]
)
def test_a_timestamp_that_cannot_be_is_refused(stamp: int, said: str) -> None:
    refusal = refused(policy(DELAY_DESTINATIONS="*"), asked(stamp_ms=stamp, due_ms=stamp))

    assert refusal.reason == "bad-timestamp"
    assert said in refusal.sentence
    assert refusal.sentence.endswith("message.timestamp.type=LogAppendTime.")


def test_a_producer_may_be_a_minute_ahead_and_any_time_behind() -> None:
    rules = policy(DELAY_DESTINATIONS="*")
    rules.check(asked(stamp_ms=NOW + 60_000, due_ms=NOW), NOW)
    rules.check(asked(stamp_ms=0, due_ms=0), NOW)


def test_commands_need_no_destination() -> None:
    policy().check(asked("", op="cancel"), NOW)


def test_an_input_may_have_callbacks_of_its_own() -> None:
    ours, others = "https://ours.example/back", "https://others.example/back"
    said = f"delay-requests:{ours}|https://both.example/*,others:{others},https://all.example/"
    rules = policy(DELAY_DESTINATIONS="*", DELAY_INPUTS="others=native", DELAY_CALLBACKS=said)
    for url in (ours, "https://both.example/x", "https://all.example/"):
        rules.check(asked(on_failure=url), NOW)
    assert refused(rules, asked(on_failure=others)).reason == "not-allowed"


def test_a_callback_goes_only_where_the_settings_allow_it() -> None:
    rules = policy(DELAY_DESTINATIONS="*", DELAY_CALLBACKS="https://example.com/*, https://a.example/x")
    rules.check(asked(on_failure="https://example.com/back"), NOW)
    rules.check(asked(on_failure="https://a.example/x"), NOW)
    refusal = refused(rules, asked(on_failure="http://169.254.169.254/"))

    assert refusal.reason == "not-allowed"
    assert "DELAY_CALLBACKS does not allow 'http://169.254.169.254'" in refusal.sentence
    assert refused(policy(DELAY_DESTINATIONS="*"), asked(on_failure="https://example.com/")).reason == "not-allowed"


def test_an_allowed_topic_is_remembered_and_urls_and_other_clusters_are_not() -> None:
    rules = policy(
        DELAY_DESTINATIONS="*", DELAY_HTTP_DESTINATIONS="https://a.example/*", DELAY_CLUSTERS="emea=127.0.0.1:1"
    )

    for request in (
        asked(),
        asked("https://a.example/b"),
        asked("refunds", cluster="emea"),
        asked("x", source="other"),
    ):
        rules.check(request, NOW)

    assert rules.allowed_so_far("delay-requests") == {"orders"}
    assert rules.allowed_so_far("other") == {"x"}


@pytest.mark.parametrize("field", ["to", "cluster"])
def test_names_that_are_too_long_to_be_any_are_not_kept(field: str) -> None:
    rules = policy(DELAY_DESTINATIONS="*")
    for number in range(20):
        refused(rules, asked(**{field: f"{number}{'a' * 1_000}"}))
        refused(rules, asked(**{field: f"{number} short"}))

    assert rules._forbidden.cache_info().currsize == 20


def test_the_path_of_a_callback_that_is_refused_stays_a_secret() -> None:
    refusal = refused(policy(DELAY_DESTINATIONS="*"), asked(on_failure="https://cb.example/hook/SECRET?token=SECRET"))

    assert "'https://cb.example'" in refusal.sentence
    assert "SECRET" not in refusal.sentence
