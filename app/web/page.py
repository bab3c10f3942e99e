"""Renders the page: complete HTML from the server, so that it also works without a script."""

from collections.abc import Sequence
from html import escape

import msgspec

from app.web import sections, wording
from app.web.overview import Overview
from app.web.state import Recovery

# Without a script the page is loaded again as a whole: less often, because that loses the reader's place.
RELOAD_SECONDS = 5


class Frame(msgspec.Struct, frozen=True):
    """What every page shows around its content; `assets` maps a static file to its address."""

    app_id: str
    worker_url: str
    version: str
    now_ms: int
    assets: dict[str, str]


def overview_page(frame: Frame, overview: Overview, wanted: str, order: str) -> str:
    """Return the page of a worker that is ready.

    `wanted` keeps the destinations whose name contains it; `order` sorts them: by "pending" or by "name".
    """
    title = f"{wording.number(overview.pending)} pending"
    content = "\n".join(
        [
            sections.notices(overview),
            sections.figures(overview),
            sections.destinations(overview, wanted, order),
            sections.queues(overview),
            sections.workers(overview),
            sections.partitions(overview),
        ]
    )
    return _document(frame, title, content)


def recovering_page(frame: Frame, reason: str, recovery: Sequence[Recovery]) -> str:
    """Return the page of a worker that is not ready yet: why, and how long it will take."""
    return _document(frame, "recovering", sections.recovering(reason, recovery))


def _document(frame: Frame, title: str, content: str) -> str:
    app_id, worker, version = escape(frame.app_id), escape(frame.worker_url), escape(frame.version)
    now = sections.moment(frame.now_ms)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)} · {app_id} · Punctual</title>
<link rel="icon" href="{frame.assets["clock.svg"]}">
<link rel="stylesheet" href="{frame.assets["page.css"]}">
<script src="{frame.assets["page.js"]}" defer></script>
<noscript><meta http-equiv="refresh" content="{RELOAD_SECONDS}"></noscript>
</head>
<body>
<header>
<h1><img src="{frame.assets["clock.svg"]}" alt="" width="28" height="28"> Punctual
<span class="app">{app_id}</span></h1>
<p class="clock">{now}</p>
<button type="button" id="pause" hidden>Pause</button>
</header>
<p id="connection" role="status"></p>
<main>
{content}
</main>
<footer>
<p>Shown by {worker}, version {version}. As JSON: <a href="/api/v1/overview">/api/v1/overview</a></p>
</footer>
</body>
</html>
"""
