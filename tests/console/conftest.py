"""A worker's state that tests set by hand, as for the API."""

from tests.web.conftest import record, state

__all__ = ["record", "state"]
