"""The pages of what goes on: workers, jobs, what recurs, and who has done what."""

from urllib.parse import quote

from aiohttp import web

from app.serve.console import forms, payload
from app.serve.console.desk import Desk


class Work:
    """Answers /workers, /jobs, /recurring and /audit."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def show_workers(self, request: web.Request) -> web.Response:
        """Answer GET /workers: who owns what, how far each is, and what a check of the installation has found."""
        findings = await self._desk.api(request).get("/findings", {"wait": "0"})
        wrong = [one for one in findings.get("findings", []) if one["level"] != "ok"]
        return await self._desk.show(request, "workers.html", live=True, findings=findings, wrong=wrong)

    async def show_jobs(self, request: web.Request) -> web.Response:
        """Answer GET /jobs: the newest first."""
        found = await self._desk.api(request).get("/jobs")
        return await self._desk.show(request, "jobs.html", live=True, found=found)

    async def show_job(self, request: web.Request) -> web.Response:
        """Answer GET /jobs/{id}: how far a job is, and what has come of its messages."""
        id_ = request.match_info["id"]
        found = await self._desk.api(request).get(f"/jobs/{quote(id_, safe='')}")
        running = found.get("state") == "running"
        return await self._desk.show(
            request, "job.html", live=running, id=id_, found=found, status=200 if found.well else found.status
        )

    async def stop_job(self, request: web.Request) -> web.Response:
        """Answer POST /jobs/{id}/stop."""
        await forms.form(request)
        page = f"/jobs/{quote(request.match_info['id'], safe='')}"
        return await self._desk.act(
            request, f"{page}/stop", {}, page, "The job is stopping. Messages that it has already changed stay changed."
        )

    async def show_recurring(self, request: web.Request) -> web.Response:
        """Answer GET /recurring: the series, and when each goes on."""
        query = {"recurring": "yes", "cursor": request.query.get("cursor", "")}
        found = await self._desk.api(request).get("/messages", query)
        rows = found.get("rows", [])
        return await self._desk.show(request, "recurring.html", found=found, rows=rows, plain=payload.plain)

    async def show_audit(self, request: web.Request) -> web.Response:
        """Answer GET /audit: every act, by whom, and what came of it; the newest first."""
        found = await self._desk.api(request).get("/audit", {"cursor": request.query.get("cursor", "")})
        return await self._desk.show(request, "audit.html", found=found)
