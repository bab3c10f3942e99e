"""The settings that a topic must have before a worker starts."""

import pytest

from app.engine.topics.rules import mismatches, risks
from app.settings.settings import Settings

TEAM, SCHEDULES = "orders-delays", "schedules"
SETTINGS = Settings.from_env({"DELAY_INPUTS": f"{TEAM}=native,{SCHEDULES}=etf1"})
USUAL = {
    "cleanup.policy": "delete",
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": "1048588",
    "unclean.leader.election.enable": "false",
    "min.insync.replicas": "1",
}


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
@pytest.mark.parametrize(
    "topic",
    [SETTINGS.topics.requests, TEAM, SETTINGS.topics.forwards, SETTINGS.topics.cold, SETTINGS.topics.dead_letters],
)
def test_a_topic_whose_records_all_count_is_not_compacted(topic: str, policy: str) -> None:
    config = {**USUAL, "cleanup.policy": policy}

    [sentence] = mismatches(SETTINGS.topics, topic, 16, 16, config, {})

    assert "Set cleanup.policy=delete" in sentence
    assert list(mismatches(SETTINGS.topics, topic, 16, 16, USUAL, {})) == []


@pytest.mark.parametrize("topic", [SCHEDULES, SETTINGS.topics.events_topic])
def test_another_systems_topic_or_one_of_events_that_is_compacted_is_a_risk(topic: str) -> None:
    config = {**USUAL, "cleanup.policy": "compact"}
    [risk] = risks(topic, config, {})

    assert "Kafka may delete all but the last record" in risk
    assert list(mismatches(SETTINGS.topics, topic, 16, 16, config, {})) == []
    assert list(risks(topic, USUAL, {})) == []


def test_the_changelog_is_compacted() -> None:
    assert (
        list(risks(SETTINGS.topics.changelog, {**USUAL, "cleanup.policy": "compact"}, {"cleanup.policy": "compact"}))
        == []
    )


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
@pytest.mark.parametrize("topic", [SETTINGS.topics.changelog, SETTINGS.topics.progress, SETTINGS.topics.controls])
def test_a_topic_that_keeps_the_last_record_of_each_key_is_compacted_alone(topic: str, policy: str) -> None:
    config = {**USUAL, "cleanup.policy": "compact"}
    assert list(mismatches(SETTINGS.topics, topic, 16, 16, config, {})) == []

    [sentence] = mismatches(SETTINGS.topics, topic, 16, 16, {**config, "cleanup.policy": policy}, {})
    assert "Set cleanup.policy=compact" in sentence


@pytest.mark.parametrize("topic", [SETTINGS.topics.changelog, SETTINGS.topics.progress])
def test_clocks_are_confirmed_by_the_brokers_timestamps(topic: str) -> None:
    config = {**USUAL, "cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
    [sentence] = mismatches(SETTINGS.topics, topic, 16, 16, config, {})

    assert "Set message.timestamp.type=LogAppendTime" in sentence


@pytest.mark.parametrize("topic", sorted(SETTINGS.topics.internal_topics))
def test_no_hint_for_a_wrong_number_of_partitions_deletes_messages(topic: str) -> None:
    one = topic in (SETTINGS.topics.progress, SETTINGS.topics.controls)
    needed, config = 1 if one else 16, {**USUAL, "cleanup.policy": "compact"}
    for there in (needed - 1, needed + 8):
        sentence = next(mismatches(SETTINGS.topics, topic, there, needed, config, {}))

        assert "recreate" not in sentence
        assert (", delete the topic" in sentence) == one
        assert one or f"DELAY_PARTITIONS={there}" in sentence


def test_an_input_with_too_many_partitions_is_a_case_for_a_repartition() -> None:
    sentence = next(mismatches(SETTINGS.topics, SETTINGS.topics.requests, 24, 16, USUAL, {}))

    assert "repartition --to 24" in sentence
    assert "Do not delete the topic" in sentence


def test_a_wrong_policy_of_the_changelog_is_no_reason_to_remove_databases() -> None:
    config = {**USUAL, "cleanup.policy": "compact,delete"}

    sentence = next(mismatches(SETTINGS.topics, SETTINGS.topics.changelog, 16, 16, config, {}))

    assert "keep all data directories" in sentence
