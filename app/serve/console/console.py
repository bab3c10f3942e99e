"""Registers the routes of the console."""

from aiohttp import web

from app.engine.reports.state import WorkerState
from app.serve.console.create import CreatePage
from app.serve.console.dead_letter_pages import DeadLetterPages
from app.serve.console.destinations import DestinationPages
from app.serve.console.find import FindPages, JobPages, MessagePages
from app.serve.console.home import HomePage
from app.serve.console.live import LiveUpdates
from app.serve.console.pages import Pages
from app.serve.web.ids import PLACE


def register(web_app: web.Application, state: WorkerState, *, read_only: bool = False) -> None:
    """Add the pages to a web application with the API, before it starts; with `read_only` without actions."""
    pages, live = Pages(web_app, state.now_ms, read_only=read_only), LiveUpdates(state)
    home, find, message, job = HomePage(pages), FindPages(pages), MessagePages(pages), JobPages(pages)
    destinations, create = DestinationPages(pages), CreatePage(pages, state)
    dead_letters = DeadLetterPages(pages)
    destination, dead_letter = "/destinations/{name}", r"/dead-letters/{partition:\d{1,9}}-{offset:\d{1,18}}"
    web_app.add_routes(
        [
            web.get("/", home.show),
            web.get("/destinations", destinations.show),
            web.get(destination, destinations.show_one),
            web.post(f"{destination}/pause", destinations.pause),
            web.post(f"{destination}/resume", destinations.resume),
            web.post(f"{destination}/rate", destinations.rate),
            web.get("/find", find.show),
            web.get("/find/all", find.count),
            web.post("/find/all", find.begin),
            web.get(f"/messages/{PLACE}", message.show),
            web.post(f"/messages/{PLACE}/{{act:cancel|reschedule|deliver-now|pause|resume}}", message.act),
            web.get("/dead-letters", dead_letters.show),
            web.get("/dead-letters/all", dead_letters.count),
            web.post("/dead-letters/all", dead_letters.begin),
            web.get(dead_letter, dead_letters.show_one),
            web.post(f"{dead_letter}/resend", dead_letters.resend),
            web.get("/new", create.show),
            web.post("/new", create.create),
            web.get("/recurring", pages.of("recurring.html", "/messages", "cursor", recurring="yes")),
            web.get("/workers", pages.of("workers.html", "/findings", live=True, wait="0")),
            web.get("/jobs", pages.of("jobs.html", "/jobs", live=True)),
            web.get("/jobs/{id}", job.show),
            web.post("/jobs/{id}/stop", job.stop),
            web.get("/audit", pages.of("audit.html", "/audit", "cursor")),
            web.get("/api/v1/events", live.serve),
            web.get("/static/{name}", pages.assets.serve),
        ]
    )
    web_app.on_shutdown.append(live.stop)
