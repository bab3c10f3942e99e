"""The audit reports records that cannot be read, and raises no error."""

from types import SimpleNamespace
from typing import Any

import aiokafka.errors
import pytest

from app.serve.access.caller import ANYBODY
from app.serve.actions.audit import Audit, noted_filter
from app.serve.web.problem import Problem
from app.settings.settings import Settings


@pytest.mark.parametrize("error", [TimeoutError(), aiokafka.errors.KafkaConnectionError()])
async def test_brokers_that_are_down_are_reported(error: Exception) -> None:
    async def refresh(_: list[str]) -> None:
        raise error

    engine: Any = SimpleNamespace(
        cluster=SimpleNamespace(partitions=lambda _: 0, refresh=refresh), settings=Settings.from_env({})
    )

    with pytest.raises(Problem, match="do not return the audit at the moment; try again") as raised:
        await Audit(engine).last(10, ANYBODY)
    assert raised.value.kind.name == "kafka-unavailable"


def test_keys_and_headers_in_a_filter_are_not_kept() -> None:
    asked = {"to": "https://hooks.example/secret", "key": "customer-7", "header": "token: s3cr3t", "namespace": "a"}

    assert noted_filter(asked) == {
        "to": "https://hooks.example",
        "key": "masked",
        "header": "token:masked",
        "namespace": "a",
    }
