"""Registers the routes of the console."""

from aiohttp import web

from app.engine.reports.state import WorkerState
from app.serve.console.activity import ActivityPages
from app.serve.console.create import CreatePage
from app.serve.console.dead_letter_pages import DeadLetterPages
from app.serve.console.destinations import DestinationPages
from app.serve.console.find import FindPages, MessagePages
from app.serve.console.home import HomePage
from app.serve.console.live import LiveUpdates
from app.serve.console.pages import Pages
from app.serve.web.ids import PLACE


def register(web_app: web.Application, state: WorkerState, *, read_only: bool = False) -> None:
    """Add the pages to a web application with the API, before it starts; with `read_only` without actions."""
    pages, live = Pages(web_app, state.now_ms, read_only=read_only), LiveUpdates(state)
    home, find, message, activity = HomePage(pages), FindPages(pages), MessagePages(pages), ActivityPages(pages)
    destinations, create = DestinationPages(pages), CreatePage(pages, state)
    dead_letters = DeadLetterPages(pages)
    destination, dead_letter = "/destinations/{name}", r"/dead-letters/{partition:\d{1,9}}-{offset:\d{1,18}}"
    web_app.add_routes(
        [
            web.get("/", home.show, name="home"),
            web.get("/destinations", destinations.show, name="destinations"),
            web.get(destination, destinations.show_one, name="destination"),
            web.post(f"{destination}/pause", destinations.pause, name="form-pause"),
            web.post(f"{destination}/resume", destinations.resume, name="form-resume"),
            web.post(f"{destination}/rate", destinations.rate, name="form-rate"),
            web.get("/find", find.show, name="find"),
            web.get("/find/all", find.count, name="find-all"),
            web.post("/find/all", find.begin, name="form-job"),
            web.get(f"/messages/{PLACE}", message.show, name="message"),
            web.post(
                f"/messages/{PLACE}/{{act:cancel|reschedule|deliver-now|pause|resume}}", message.act, name="form-act"
            ),
            web.get("/dead-letters", dead_letters.show, name="dead-letters"),
            web.get("/dead-letters/all", dead_letters.count, name="dead-letters-all"),
            web.post("/dead-letters/all", dead_letters.begin, name="form-resend-all"),
            web.get(dead_letter, dead_letters.show_one, name="dead-letter"),
            web.post(f"{dead_letter}/resend", dead_letters.resend, name="form-resend"),
            web.get("/new", create.show, name="new"),
            web.post("/new", create.create, name="form-create"),
            web.get("/recurring", activity.show_recurring, name="recurring"),
            web.get("/workers", activity.show_workers, name="workers"),
            web.get("/jobs", activity.show_jobs, name="jobs"),
            web.get("/jobs/{id}", activity.show_job, name="job"),
            web.post("/jobs/{id}/stop", activity.stop_job, name="form-stop"),
            web.get("/audit", activity.show_audit, name="audit"),
            web.get("/api/v1/events", live.serve, name="api-events"),
            web.get("/static/{name}", pages.renderer.assets.serve, name="static"),
        ]
    )
    web_app.on_shutdown.append(live.stop)
