"""The page for operators lists the topics as workers create them."""

import re
from pathlib import Path

from app.engine.topics.internal_topics import plan
from app.settings.settings import Settings

PAGE = Path(__file__).parents[2] / "docs/how-to/operate.md"
ROW = re.compile(r"^\| `<id>-([a-z-]+)`[^|]*\| (P|1) \| ([^|]+) \|$", re.MULTILINE)
OF_ALL = {
    "message.timestamp.type": "LogAppendTime",
    "unclean.leader.election.enable": "false",
    "min.insync.replicas": "2",
}


def test_the_topics_are_as_workers_make_them() -> None:
    settings = Settings.from_env({})
    there = {
        topic.removeprefix("delay-"): ("P" if partitions == settings.topics.partitions else str(partitions), config)
        for topic, (partitions, config) in plan(settings.topics, cold=True).items()
    }

    said = {
        name: (partitions, dict(pair.split("=") for pair in re.findall(r"`([^`]+)`", config)) | OF_ALL)
        for name, partitions, config in ROW.findall(PAGE.read_text("utf-8"))
    }

    assert said == there
