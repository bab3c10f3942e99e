"""docs/how-to/many-teams.md: a worker accepts its settings, with the namespaces and quotas of the page."""

import re

from app.settings.quotas import Quota, by_namespace
from app.settings.settings import Settings
from punctual.contract.rate import Rate
from tests.docs.how_to import blocks


def test_the_settings_are_taken_as_they_stand() -> None:
    [exports] = [text for kind, text in blocks("many-teams.md") if kind == "sh"]
    settings = Settings.from_env(dict(re.findall(r"^export (\w+)='(.*)'$", exports, re.MULTILINE)))

    assert settings.topics.namespaces.inputs == {"orders-delays": "orders", "billing-delays": "billing"}
    assert set(settings.destinations.allowed_topics) == set(settings.topics.namespaces.inputs)
    assert by_namespace(settings.topics.quotas, settings.topics.namespaces) == {
        "billing": Quota(100_000),
        "orders": Quota(1_000_000, 1 << 30, Rate(500.0)),
    }
