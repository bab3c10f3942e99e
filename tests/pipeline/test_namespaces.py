"""Inputs of namespaces: the ledger writes ids with their namespace, as events do."""

import argparse
from typing import Any

import pytest

from pipeline.dialects import decoded, within
from pipeline.errors import OptionInvalid
from pipeline.jobs.ledger import other_inputs
from tests.punctual.contract.records import NOW

TEAMS = "orders-delays=orders,schedules=orders,billing-delays=billing"


def row(topic: str, **headers: str) -> dict[str, Any]:
    encoded_headers = [{"key": name.replace("_", "-"), "value": text.encode()} for name, text in headers.items()]
    position = {"topic": topic, "partition": 0, "offset": 7, "stamp_ms": NOW}
    return {**position, "key": b"k", "value": b"v", "headers": encoded_headers}


def options(inputs: str, namespaces: str) -> argparse.Namespace:
    return argparse.Namespace(inputs=inputs, namespaces=namespaces)


def test_ids_from_the_input_of_a_namespace_begin_with_the_namespace() -> None:
    inputs = other_inputs(options("orders-delays,schedules=etf1,shared", TEAMS))
    request = {"delay_to": "mails", "delay_at": str(NOW)}

    assert decoded(row("orders-delays", delay_id="x", **request), inputs["orders-delays"]).id == "orders/x"
    assert decoded(row("orders-delays", **request), inputs["orders-delays"]).id == "orders-delays-0-7"
    etf1 = {"scheduler-epoch": "1893456000", "scheduler-target-topic": "mails"}
    assert decoded(row("schedules", **etf1), inputs["schedules"]).id == "orders/k"
    assert inputs["shared"] == "native"
    assert decoded(row("shared", delay_id="x", **request), within("native", TEAMS)).id == "x"


def test_an_invalid_name_of_a_namespace_is_an_error() -> None:
    with pytest.raises(OptionInvalid, match="--namespaces: 'Orders' is not the name of a namespace"):
        other_inputs(options("", "orders-delays=Orders"))
