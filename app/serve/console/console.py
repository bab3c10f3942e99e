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
    router = web_app.router
    router.add_get("/", home.show)
    router.add_get("/destinations", destinations.show)
    router.add_get(destination, destinations.show_one)
    router.add_post(f"{destination}/pause", destinations.pause)
    router.add_post(f"{destination}/resume", destinations.resume)
    router.add_post(f"{destination}/rate", destinations.rate)
    router.add_get("/find", find.show)
    router.add_get("/find/all", find.count)
    router.add_post("/find/all", find.begin)
    router.add_get(f"/messages/{PLACE}", message.show)
    router.add_post(f"/messages/{PLACE}/{{act:cancel|reschedule|deliver-now|pause|resume}}", message.act)
    router.add_get("/dead-letters", dead_letters.show)
    router.add_get("/dead-letters/all", dead_letters.count)
    router.add_post("/dead-letters/all", dead_letters.begin)
    router.add_get(dead_letter, dead_letters.show_one)
    router.add_post(f"{dead_letter}/resend", dead_letters.resend)
    router.add_get("/new", create.show)
    router.add_post("/new", create.create)
    router.add_get("/recurring", pages.of("recurring.html", "/messages", "cursor", recurring="yes"))
    router.add_get("/workers", pages.of("workers.html", "/findings", live=True, wait="0"))
    router.add_get("/jobs", pages.of("jobs.html", "/jobs", live=True))
    router.add_get("/jobs/{id}", job.show)
    router.add_post("/jobs/{id}/stop", job.stop)
    router.add_get("/audit", pages.of("audit.html", "/audit", "cursor"))
    router.add_get("/api/v1/events", live.serve)
    router.add_get("/static/{name}", pages.assets.serve)
    web_app.on_shutdown.append(live.stop)
