"""The pages of workers, jobs, recurring messages and the audit."""

from urllib.parse import quote

from aiohttp import web

from app.serve.console import forms, payload
from app.serve.console.pages import Pages


class ActivityPages:
    """Answers /workers, /jobs, /recurring and /audit."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    async def show_workers(self, request: web.Request) -> web.Response:
        """Answer GET /workers with the workers, their partitions and progress, and the installation's findings."""
        findings = await self._pages.api(request).get("/findings", {"wait": "0"})
        problems = [finding for finding in findings.get("findings", []) if finding["level"] != "ok"]
        return await self._pages.show(request, "workers.html", live=True, findings=findings, problems=problems)

    async def show_jobs(self, request: web.Request) -> web.Response:
        """Answer GET /jobs with all jobs, the newest first."""
        answer = await self._pages.api(request).get("/jobs")
        return await self._pages.show(request, "jobs.html", live=True, answer=answer)

    async def show_job(self, request: web.Request) -> web.Response:
        """Answer GET /jobs/{id} with the progress of a job and the outcomes of its messages."""
        id_ = request.match_info["id"]
        answer = await self._pages.api(request).get(f"/jobs/{quote(id_, safe='')}")
        running = answer.get("state") == "running"
        return await self._pages.show(
            request, "job.html", live=running, id=id_, answer=answer, status=200 if answer.ok else answer.status
        )

    async def stop_job(self, request: web.Request) -> web.Response:
        """Answer POST /jobs/{id}/stop: stop the job."""
        await forms.form(request)
        page = f"/jobs/{quote(request.match_info['id'], safe='')}"
        return await self._pages.post(
            request, f"{page}/stop", {}, page, "The job is stopping. Messages that it has already changed stay changed."
        )

    async def show_recurring(self, request: web.Request) -> web.Response:
        """Answer GET /recurring with the recurring messages and their next occurrences."""
        query = {"recurring": "yes", "cursor": request.query.get("cursor", "")}
        answer = await self._pages.api(request).get("/messages", query)
        rows = list(map(payload.row_of, answer.get("rows", [])))
        return await self._pages.show(request, "recurring.html", answer=answer, rows=rows)

    async def show_audit(self, request: web.Request) -> web.Response:
        """Answer GET /audit with every action, its user and its outcome, the newest first."""
        answer = await self._pages.api(request).get("/audit", {"cursor": request.query.get("cursor", "")})
        return await self._pages.show(request, "audit.html", answer=answer)
