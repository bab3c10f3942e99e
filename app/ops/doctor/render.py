"""An examination for people, and for programs."""

import msgspec

from app.ops.doctor.examination import Examination

_SIGNS = {"error": "\N{MULTIPLICATION SIGN}", "warning": "!", "ok": "\N{CHECK MARK}"}


def table(examination: Examination) -> str:
    """Return one line for each finding: sign, level, check and sentence."""
    rows = examination.findings
    wide = max((len(row.check) for row in rows), default=0)
    return "\n".join(f"{_SIGNS[row.level]} {row.level:<7}  {row.check:<{wide}}  {row.sentence}" for row in rows)


def summary(examination: Examination) -> str:
    """Return a sentence that counts."""
    counts = {level: sum(row.level == level for row in examination.findings) for level in ("error", "warning", "ok")}
    if examination.level == "ok":
        return f"no problems found: {counts['ok']} checks passed"
    found = ", ".join(
        f"{count} {level}{'' if count == 1 else 's'}" for level, count in counts.items() if count and level != "ok"
    )
    return f"{found}; {counts['ok']} checks passed"


def as_json(examination: Examination) -> str:
    """Return the examination in JSON, as GET /api/v1/findings has it."""
    return msgspec.json.format(msgspec.json.encode(examination), indent=2).decode()
