"""The names that users import stay the same, and importing them stays cheap."""

import subprocess
import sys
from inspect import signature

import pytest

import punctual
from punctual import DelayClient, SyncDelayClient
from punctual.client import errors as client_errors
from punctual.client.faust_methods import DelayMethods


def test_the_exported_names_are_frozen() -> None:
    assert punctual.__all__ == [
        "ClientClosedError",
        "DelayClient",
        "DelayError",
        "DelayOptions",
        "IfLate",
        "InvalidDestinationError",
        "InvalidDueTimeError",
        "InvalidHeaderError",
        "InvalidIdError",
        "InvalidOptionError",
        "InvalidRequestError",
        "InvalidValueError",
        "KafkaUnreachableError",
        "NotAcknowledgedError",
        "NotAuthorizedError",
        "PartitionCountError",
        "RequestTooLargeError",
        "RequestsTopicMissingError",
        "SyncDelayClient",
        "exponential",
    ]


@pytest.mark.parametrize("method", ["delay", "cancel", "reschedule", "deliver_now", "pause_series", "resume_series"])
def test_all_three_ways_to_call_take_the_same_arguments(method: str) -> None:
    asked = signature(getattr(DelayClient, method)).parameters

    assert signature(getattr(SyncDelayClient, method)).parameters == asked
    assert signature(getattr(DelayMethods, method)).parameters == asked


@pytest.mark.parametrize("method", ["pause", "limit", "resume"])
def test_both_clients_pause_and_limit_rates_in_the_same_way(method: str) -> None:
    assert signature(getattr(SyncDelayClient, method)).parameters == signature(getattr(DelayClient, method)).parameters


def test_both_clients_are_constructed_in_the_same_way() -> None:
    assert signature(SyncDelayClient).parameters == signature(DelayClient).parameters


def test_importing_the_client_loads_neither_faust_nor_the_engine_nor_kafkas_client() -> None:
    heavy = "{'faust', 'mode', 'rocksdict', 'aiokafka', 'aiohttp', 'tables'}"
    script = f"import sys, punctual, punctual.client.faust_methods; print(sorted({heavy} & sys.modules.keys()))"

    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert loaded.stdout.strip() == "[]"


def test_the_tree_of_errors_equals_the_one_in_its_module() -> None:
    drawing = client_errors.__doc__ or ""
    things = vars(client_errors).items()
    errors = [name for name, thing in things if isinstance(thing, type) and issubclass(thing, Exception)]

    assert all(name in drawing for name in errors)
    assert set(errors) == {name for name in punctual.__all__ if name.endswith("Error")}
