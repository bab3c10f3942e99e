"""Inputs of teams: ids in the ledger have their full names, as in events."""

import argparse
from typing import Any

import pytest

from pipeline.dialects import decoded, within
from pipeline.errors import OptionInvalid
from pipeline.jobs.ledger import other_inputs
from tests.punctual.contract.records import NOW

TEAMS = "orders-delays=orders,schedules=orders,billing-delays=billing"


def row(topic: str, **said: str) -> dict[str, Any]:
    headers = [{"key": name.replace("_", "-"), "value": text.encode()} for name, text in said.items()]
    place = {"topic": topic, "partition": 0, "offset": 7, "stamp_ms": NOW}
    return {**place, "key": b"k", "value": b"v", "headers": headers}


def options(inputs: str, namespaces: str) -> argparse.Namespace:
    return argparse.Namespace(inputs=inputs, namespaces=namespaces)


def test_ids_of_a_teams_input_have_their_full_names() -> None:
    inputs = other_inputs(options("orders-delays,schedules=etf1,shared", TEAMS))
    asked = {"delay_to": "mails", "delay_at": str(NOW)}

    assert decoded(row("orders-delays", delay_id="x", **asked), inputs["orders-delays"]).id == "orders/x"
    assert decoded(row("orders-delays", **asked), inputs["orders-delays"]).id == "orders-delays-0-7"
    etf1 = {"scheduler-epoch": "1893456000", "scheduler-target-topic": "mails"}
    assert decoded(row("schedules", **etf1), inputs["schedules"]).id == "orders/k"
    assert inputs["shared"] == "native"
    assert decoded(row("shared", delay_id="x", **asked), within("native", TEAMS)).id == "x"


def test_nonsense_is_said_to_be_so() -> None:
    with pytest.raises(OptionInvalid, match="--namespaces: 'Orders' is not the name of a namespace"):
        other_inputs(options("", "orders-delays=Orders"))
