"""The commands: modules with `add_options(parser)` and `run(context, options)`, whose first line is their help."""

from types import ModuleType

from pipeline.jobs import bulk, cancel, ledger, park, promote, reconcile, report, reschedule, rescue

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
