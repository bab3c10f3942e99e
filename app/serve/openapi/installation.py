"""The operations on an installation, which only workers serve, and those of each process."""

from collections.abc import Iterable
from typing import Any, Final

from app.serve.dead_letters.dead_letter import DeadLetterFilter
from app.serve.openapi.messages import (
    ANY,
    BODY,
    BY_GATEWAY,
    BY_WORKER,
    Operation,
    Part,
    answer,
    operation,
    parameter,
    takes,
)
from app.serve.search.filter import Filter

_READ: Final = (*ANY, "invalid-parameter", "busy", "unreachable", "kafka-unavailable", "not-ready")
_ACT: Final = (*_READ, *BODY, "read-only", "unknown-destination", "unknown-message", "conflict", "stale")
_PAGE: Final = {"limit": "Maximum number of rows.", "cursor": "`next` of the page before."}
_SECONDS: Final = {"seconds": "Maximum time to count."}
_TO: Final = parameter("to", "path", "A topic, or the origin of URLs.", "reminders", minLength=1)
_JOB: Final = parameter("id", "path", "ID of the job.", "1795600000000-6066-1", minLength=1)
_PLACE: Final = (
    parameter("partition", "path", "Partition of the dead letter.", "0", pattern="^[0-9]{1,9}$"),
    parameter("offset", "path", "Offset of the dead letter.", "1", pattern="^[0-9]{1,18}$"),
)


def _query(names: Iterable[str], **more: str) -> tuple[Part, ...]:
    """Return the parameters of a filter, and others by name with their descriptions."""
    described = dict.fromkeys(names, "Part of the filter.") | more
    return tuple(parameter(name, "query", text) for name, text in described.items())


def _get(
    path: str,
    name: str,
    summary: str,
    body: str,
    *parameters: Part,
    text: str = "From any worker; a gateway asks one.",
    done: str = "",
    problems: Iterable[str] = _READ,
    **more: Any,
) -> Operation:
    """Return an operation that answers 200 with a structure; `done` is the meaning of 200."""
    media_type = {"text": "text/plain", "event": "text/event-stream"}.get(body, "application/json")
    answers = {200: answer(done or f"{summary}.", body, media_type=media_type)}
    return operation("GET", path, (name, summary, text), answers, problems, parameters, **more)


def _post(
    path: str, name: str, summary: str, body: str, *parameters: Part, statuses: Iterable[int] = (200, 202), **more: Any
) -> Operation:
    """Return the operation of a worker that acts, and answers with a structure."""
    texts = (name, summary, "The action is written to the audit before it is done.")
    answers = {status: answer(f"{summary}.", body) for status in statuses}
    return operation("POST", path, texts, answers, _ACT, parameters, **BY_WORKER, **more)


#: Routes that a worker answers by itself, and a gateway by asking a worker.
READS: Final = (
    _get("/api/v1/overview", "getOverview", "Read the state of the installation", "InstallationOverview"),
    _get("/api/v1/partitions", "getPartitions", "Read the state of all partitions", "PartitionList"),
    _get("/api/v1/destinations", "getDestinations", "Read the largest destinations", "DestinationList"),
    _get("/api/v1/partitions/{partition}/destinations", "getPartitionDestinations",
         "Read all destinations of a partition", "DestinationList",
         parameter("partition", "path", "Number of a partition that the worker serves.", "0"),
         problems=(*_READ, "unknown-partition")),
    _get("/api/v1/messages", "findMessages", "Find pending messages", "PendingPage",
         *_query(Filter.names, **_PAGE, whole="1: values of more than 64 KiB and URLs are whole.")),
    _get("/api/v1/messages/count", "countMessages", "Count pending messages", "SearchCount",
         *_query(Filter.names, **_SECONDS)),
    _get("/api/v1/timeline", "getTimeline", "Count messages by due time", "Timeline",
         *_query(("from", "to", "step", "namespace"))),
    _get("/api/v1/namespaces", "getNamespaces", "Read the namespaces", "NamespaceList"),
    _get("/api/v1/history", "getHistory", "Read the last hour, minute by minute", "History"),
    _get("/api/v1/findings", "getFindings", "Read what the doctor finds", "anything", *_query((), wait="0: at once.")),
    _get("/api/v1/audit", "getAudit", "Read the newest actions", "ActionList"),
    _get("/api/v1/jobs", "getJobs", "Read all jobs", "JobList"),
    _get("/api/v1/jobs/{id}", "getJob", "Read a job", "JobStatus", _JOB, problems=(*_READ, "unknown-job")),
    _get("/api/v1/dead-letters", "findDeadLetters", "Find dead letters", "DeadLetterPage",
         *_query(DeadLetterFilter.names, **_PAGE)),
    _get("/api/v1/dead-letters/count", "countDeadLetters", "Count dead letters", "DeadLetterCount",
         *_query(DeadLetterFilter.names, **_SECONDS)),
    _get("/api/v1/dead-letters/{partition}-{offset}", "getDeadLetter", "Read a dead letter", "DeadLetter", *_PLACE,
         problems=(*_READ, "unknown-dead-letter")),
)  # fmt: skip
OPERATIONS: Final = (
    *READS,
    _post("/api/v1/jobs", "startJob", "Change all messages that match a filter", "JobStatus",
          **takes("JobRequest", examples={"cancel": {"act": "cancel", "filter": {"to": "reminders"}, "confirm": 100}}),
          statuses=(202,)),
    _post("/api/v1/jobs/{id}/stop", "stopJob", "Stop a job", "JobStatus", _JOB, statuses=(200,)),
    _post("/api/v1/dead-letters/{partition}-{offset}/resend", "resendDeadLetter", "Send a dead letter again", "Outcome",
          *_PLACE, **takes("CorrectionRequest", examples={"header": {"headers": {"delay-to": "reminders"}}})),
    _post("/api/v1/destinations/{to}/pause", "pauseDestination", "Pause a destination", "Outcome", _TO,
          **takes("DestinationPauseRequest", examples={"reason": {"reason": "migration"}})),
    _post("/api/v1/destinations/{to}/resume", "resumeDestination", "Resume a destination", "Outcome", _TO),
    _post("/api/v1/destinations/{to}/rate", "setRate", "Limit the rate of a destination", "Outcome", _TO,
          **takes("RateRequest", examples={"rate": {"rate": "20/s burst 100"}})),
    _get("/api/v1/events", "followChanges", "Follow changes", "event", text="Server-sent events, for the console.",
         done="The events.", **BY_WORKER),
    _get("/problems/{name}", "getProblemType", "Read the meaning of a problem type", "ProblemType",
         parameter("name", "path", "Name of the type.", "missing-due", minLength=1),
         text="The address in `type` of a problem.", done="The meaning.", problems=ANY),
    _get("/api/v1/openapi.json", "getDocument", "Read this document", "anything", done="This document.", problems=ANY,
         text="Generated from the code that reads and writes messages."),
    _get("/health/live", "isLive", "Check that the process answers", "anything", text="Of this process only.",
         done="It answers.", problems=ANY),
    _get("/health/ready", "isReady", "Check that a worker delivers, or a gateway accepts messages", "anything",
         text="Of this process only. A gateway accepts messages into Kafka or onto its disk.", done="It is ready.",
         problems=(*ANY, "not-ready")),
    _get("/live", "isGatewayLive", "The former path of /health/live", "anything", text="For this release.",
         done="It answers.", problems=ANY, **BY_GATEWAY),
    _get("/ready", "isGatewayReady", "The former path of /health/ready", "anything", text="For this release.",
         done="It accepts messages.", problems=(*ANY, "not-ready"), **BY_GATEWAY),
    _get("/metrics", "getMetrics", "Read metrics in Prometheus format", "text", text="Of this process only.",
         done="The metrics.", problems=ANY),
)  # fmt: skip
