"""What a topic must be like before a worker starts with it."""

import pytest

from app.settings import Settings
from app.topic_rules import mismatches, risks

SETTINGS = Settings.from_env({})
USUAL = {
    "cleanup.policy": "delete",
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": "1048588",
    "unclean.leader.election.enable": "false",
    "min.insync.replicas": "1",
}


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
@pytest.mark.parametrize("topic", [SETTINGS.forwards, SETTINGS.cold])
def test_what_is_on_its_way_is_not_compacted(topic: str, policy: str) -> None:
    config = {**USUAL, "cleanup.policy": policy}

    [sentence] = mismatches(SETTINGS, topic, 16, 16, config, {})

    assert "Set cleanup.policy=delete" in sentence
    assert list(mismatches(SETTINGS, topic, 16, 16, USUAL, {})) == []


def test_an_input_that_is_compacted_is_a_risk() -> None:
    [risk] = risks(SETTINGS.requests, {**USUAL, "cleanup.policy": "compact"}, {})

    assert "all but the last may be lost" in risk
    assert list(risks(SETTINGS.requests, USUAL, {})) == []
    assert list(risks(SETTINGS.changelog, {**USUAL, "cleanup.policy": "compact"}, {"cleanup.policy": "compact"})) == []


@pytest.mark.parametrize("topic", sorted(SETTINGS.internal_topics))
def test_no_hint_for_a_wrong_number_of_partitions_deletes_messages(topic: str) -> None:
    one = topic in (SETTINGS.progress, SETTINGS.controls)
    needed, config = 1 if one else 16, {**USUAL, "cleanup.policy": "compact"}
    for there in (needed - 1, needed + 8):
        sentence = next(mismatches(SETTINGS, topic, there, needed, config, {}))

        assert "recreate" not in sentence
        assert ("delete it" in sentence) == one
        assert one or f"DELAY_PARTITIONS={there}" in sentence


def test_an_input_with_too_many_partitions_is_a_case_for_a_repartition() -> None:
    sentence = next(mismatches(SETTINGS, SETTINGS.requests, 24, 16, USUAL, {}))

    assert "repartition --to 24" in sentence
    assert "Do not delete the topic" in sentence


def test_a_wrong_policy_of_the_changelog_is_no_reason_to_remove_databases() -> None:
    config = {**USUAL, "cleanup.policy": "compact,delete"}

    sentence = next(mismatches(SETTINGS, SETTINGS.changelog, 16, 16, config, {}))

    assert "keep all data directories" in sentence
