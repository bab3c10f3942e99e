"""`punctual export`: writes pending messages as JSON lines for `punctual import`."""

from typing import Any, Final

from punctual.cli.api import WorkerApi, missing
from punctual.cli.arguments import add_filter, add_worker, filter_of
from punctual.cli.errors import NotAllowed
from punctual.cli.exits import Exit
from punctual.cli.pages import pages
from punctual.cli.parser import Options, Parser
from punctual.cli.progress import Progress
from punctual.cli.table import write_json
from punctual.cli.terminal import say
from punctual.cli.times import span

#: Within this time, a partition that moves to another worker is available again.
_PATIENCE: Final = "30s"


def add_arguments(parser: Parser) -> None:
    """Add the arguments for a filter, and for the wait for missing partitions."""
    about = f"maximum wait for partitions that no worker serves (default: {_PATIENCE})"
    parser.add_argument("--patience", type=span, default=span(_PATIENCE), metavar="SPAN", help=about)
    add_filter(parser)
    add_worker(parser)


def run(options: Options) -> Exit:
    """Write the messages, then report their number, and missing partitions."""
    wanted, patience_s = filter_of(options), options.patience.total_seconds()
    lacks, done = None, 0
    with WorkerApi.of(options) as api:
        installation = _installation(api, patience_s)
        progress = Progress("messages", None if wanted else installation.get("pending"))
        try:
            for page in pages(api, wanted, whole=True, patience_s=patience_s):
                for row in page["rows"]:
                    _check(row)
                    write_json({"app_id": installation["app_id"], "exported_ms": installation["at_ms"], **row})
                done += len(page["rows"])
                progress.reach(done)
                lacks = missing(page) if "missed" in page else lacks or missing(page)
        finally:
            progress.erase()
    say(f"{done:,} messages are exported")
    if lacks is not None:
        raise lacks
    return Exit.DONE


def _installation(api: WorkerApi, patience_s: float) -> dict[str, Any]:
    """Return the overview of the installation, or of their namespaces for users who are bound to some."""
    try:
        return api.get("/overview", patience_s=patience_s)
    except NotAllowed:
        return api.get("/namespaces", patience_s=patience_s)


def _check(row: dict[str, Any]) -> None:
    """Raise NotAllowed for a message without its content."""
    if row.get("masked"):
        raise NotAllowed(
            "keys and values are masked for you (DELAY_WEB_PAYLOADS): with masked-for-viewers an operator sees "
            "them. With masked no user does: use shown for the export, on ports that only you can reach"
        )
