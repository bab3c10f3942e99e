"""What spans of posts say: the semantic conventions for HTTP clients, without what a URL may keep secret."""

from opentelemetry.util.types import AttributeValue

from app.base.http.answers import Answer, Meaning
from app.base.http.target import Target

#: Stands for a path and a query: they may hold secrets, and be as many as there are messages.
_REDACTED = "/REDACTED"


def attributes_of(to: Target, attempts: int, answer: Answer) -> dict[str, AttributeValue]:
    """Return the attributes of a post that came after so many others, and of what came of it."""
    rest = to.url.raw_path_qs
    found: dict[str, AttributeValue] = {
        "http.request.method": "POST",
        "url.full": to.origin + (rest if rest == "/" else _REDACTED),
        "server.address": to.host,
        "server.port": to.port,
    }
    if attempts:
        found["http.request.resend_count"] = attempts
    if answer.status:
        found["http.response.status_code"] = answer.status
    if answer.meaning is not Meaning.TAKEN:
        found["error.type"] = str(answer.status or answer.why.replace(" ", "_"))
    return found
