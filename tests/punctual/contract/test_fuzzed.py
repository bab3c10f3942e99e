"""Whatever is on an input, in each dialect it is a request or a refusal. FUZZ_SEEDS says how many are tried (200)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.fuzz import seeds
from tests.punctual.contract.foreign import SETTINGS, outcome
from tests.punctual.contract.fuzzed import FUZZED
from tests.punctual.contract.refused import REFUSED


@pytest.mark.parametrize("name", FUZZED)
@settings(max_examples=len(seeds()), deadline=None)  # a busy machine is no failure
@given(data=st.data())
def test_every_record_is_a_request_or_a_refusal(name: str, data: st.DataObject) -> None:
    refusal = outcome(SETTINGS[name], data.draw(FUZZED[name])).refusal

    assert refusal is None or refusal.reason in {case.reason for case in REFUSED[name].values()}
