"""Acts and jobs as whoever asks may see them: what was asked for may say what keys and headers say."""

import msgspec

from app.serve.access.roles import Asker
from app.serve.acts.audit import Act, noted
from app.serve.acts.job import Job, Standing
from app.serve.search.filter import Filter
from app.serve.search.visibility import filter_shown
from punctual.contract.destination import shown


def is_theirs(job: Job, asker: Asker) -> bool:
    """Whether a job is about somebody's namespaces alone, or about all, which are theirs."""
    return asker.namespaces is None or (bool(job.namespaces) and job.namespaces <= set(asker.namespaces))


def job_shown(standing: Standing, asker: Asker) -> Standing:
    """Return how a job stands as somebody may see it: what it tells of others' messages is not theirs to know."""
    job = msgspec.structs.replace(standing.job, filter=filter_shown(standing.job.filter, asker))
    letters = job.dead_letters
    if letters is not None:
        job = msgspec.structs.replace(job, dead_letters=msgspec.structs.replace(letters, to=shown(letters.to)))
    if not asker.bound:
        return msgspec.structs.replace(standing, job=job)
    parts = [msgspec.structs.replace(part, after="") for part in standing.parts]
    return msgspec.structs.replace(standing, job=msgspec.structs.replace(job, ends=[]), parts=parts)


def act_shown(act: Act, asker: Asker) -> Act:
    """Return an act as somebody may see it."""
    act = msgspec.structs.replace(act, asked=noted(act.asked))
    asked = act.asked.get("filter")
    if not isinstance(asked, dict):
        return act
    wanted = filter_shown(Filter(key=asked.get("key", ""), header=asked.get("header", "")), asker)
    masked = {name: getattr(wanted, name) for name in ("key", "header") if name in asked}
    return msgspec.structs.replace(act, asked={**act.asked, "filter": noted({**asked, **masked})})
