"""A worker's state that tests set by hand, as for the API."""

from tests.app.serve.web.conftest import record, state

__all__ = ["record", "state"]
