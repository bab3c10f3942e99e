"""The commands: modules with `add_options(parser)` and `run(context, options)`, whose first line is their help.

`TOPICS` are those of the installation that a command needs, `AGAIN` says what is safe, and what to do, when it was
stopped in the middle. `idle(look, source, options)`, where there is one, tells before Spark starts that nothing is to
do; `source` is the installation (`lake.source_of`).
"""

import argparse
import logging
import os
from importlib.util import find_spec
from types import ModuleType

from pipeline.jobs import bulk, cancel, ledger, park, promote, reconcile, report, reschedule, rescue
from pipeline.lake import source_of

log = logging.getLogger(__name__)

JOBS: dict[str, ModuleType] = {
    "bulk": bulk,
    "cancel": cancel,
    "reschedule": reschedule,
    "park": park,
    "promote": promote,
    "ledger": ledger,
    "reconcile": reconcile,
    "rescue": rescue,
    "report": report,
}


def idle(job: ModuleType, options: argparse.Namespace) -> bool:
    """Look whether a command can do its work, and return whether there is nothing to do; says so then.

    The command's own look only saves the time to start Spark: whatever goes wrong in it, the command does its work, and
    says what is wrong with it. Raises KafkaUnreachable, TopicMissing.
    """
    if find_spec("aiokafka") is None:
        return False
    from pipeline.preflight import looking  # noqa: PLC0415 - it may not be installed

    with looking(options.bootstrap) as look:
        cluster_id = look.cluster_id(*(f"{options.app_id}-{name}" for name in job.TOPICS))
        if not hasattr(job, "idle") or getattr(options, "every", None) or "PYSPARK_GATEWAY_PORT" in os.environ:
            return False
        try:
            return bool(job.idle(look, source_of(options.app_id, cluster_id), options))
        except Exception:
            log.debug("the check failed, so the job runs", exc_info=True)
            return False
