"""The commands: modules with `add_options(parser)` and `run(context, options)`, whose first line is their help.

`TOPICS` are the installation's topics that a command needs. `AGAIN` tells the user the state, and the next step, after
a run that was stopped in the middle. A command can have `idle(look, source, options)`, which returns before Spark
starts whether there is no work; `source` is the installation (`lake.source_of`).
"""

import argparse
import logging
import os
from importlib.util import find_spec
from types import ModuleType

from pipeline.jobs import bulk, cancel, erase, ledger, park, promote, reconcile, report, reschedule, rescue, vacuum
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
    "erase": erase,
    "vacuum": vacuum,
}


def idle(job: ModuleType, options: argparse.Namespace) -> bool:
    """Check that a command has its topics, and return whether it has no work; print its result then.

    A command's own `idle` only saves the time to start Spark. If it fails, the command runs, and reports the error
    itself. Raises KafkaUnreachable, TopicMissing.
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
