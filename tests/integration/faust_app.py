"""A user's Faust app next to an installation."""

from tests.harness.program import Program
from tests.integration.installation import Installation


class FaustApp(Program):
    """A program of tests/harness: it handles a topic's events, and reports them as `done` in another topic, or a
    file."""

    def __init__(
        self,
        installation: Installation,
        to: str,
        done: str,
        *,
        max_attempts: int,
        base: str,
        program: str = "retrying_app",
        name: str = "app",
    ) -> None:
        data = installation.worker.data.parent / f"{name}-{to}"
        env = {
            "APP_KAFKA": installation.bootstrap,
            "APP_DELAY": installation.app_id,
            "APP_TO": to,
            "APP_DONE": done,
            "APP_DATA": str(data),
            "APP_ATTEMPTS": str(max_attempts),
            "APP_BASE": base,
        }
        super().__init__(
            data.with_suffix(".log"), "-m", f"tests.harness.{program}", "worker", "-l", "info", "--without-web", env=env
        )
