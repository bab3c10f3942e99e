"""A user's Faust app beside an installation."""

from tests.harness.program import Program
from tests.integration.installation import Installation


class FaustApp(Program):
    """tests/harness/retrying_app.py: it handles what comes to a topic, and says in another what is done."""

    def __init__(self, installation: Installation, to: str, done: str, *, max_attempts: int, base: str) -> None:
        data = installation.worker.data.parent / f"app-{to}"
        env = {
            "APP_KAFKA": installation.bootstrap,
            "APP_DELAY": installation.app_id,
            "APP_TO": to,
            "APP_DONE": done,
            "APP_DATA": str(data),
            "APP_ATTEMPTS": str(max_attempts),
            "APP_BASE": base,
        }
        super().__init__(data.with_suffix(".log"), "-m", "tests.harness.retrying_app", "worker", "-l", "info", env=env)
