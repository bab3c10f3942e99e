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
