"""Compares the workers: their settings, their versions, and whether they still report."""

from collections import Counter
from collections.abc import Iterator, Mapping

from app.engine.reports.agreement import differing, fingerprint, has_other
from app.engine.reports.reader import STALE_AFTER_MS, Report
from app.ops.doctor.facts import Facts
from app.ops.doctor.finding import Finding
from app.settings.settings import Settings
from app.settings.topics import TopicSettings

CHECK = "workers"


def check(settings: Settings, facts: Facts) -> Iterator[Finding]:
    """Yield the state of the workers that have reported, and the partitions without a worker."""
    if not facts.reports_read:
        sentence = (
            f"some worker reports cannot be read from {settings.topics.progress}, so this check may miss running "
            "workers. Check which of its brokers are down, then run the doctor again."
        )
        yield Finding("error", CHECK, settings.topics.app_id, sentence)
    if not facts.reports and not facts.reports_read:
        return
    if not facts.reports:
        sentence = "no worker has reported yet, so nothing is delivered. Start one with `faust -A app worker`."
        yield Finding("warning", CHECK, settings.topics.app_id, sentence)
        return
    fresh = [report for report in facts.reports.values() if _age_ms(facts, report) <= STALE_AFTER_MS]
    before = len(fresh) < len(facts.reports)
    yield from _silent(settings.topics, facts, fresh)
    settings_by_worker = {
        report.progress.worker: report.progress.settings for report in fresh if report.progress.settings
    }
    others = list(_differing(fingerprint(settings), settings_by_worker, facts.own_url))
    yield from others
    versions = {report.progress.worker: report.progress.version for report in fresh}
    if len(set(versions.values())) > 1:
        listed = ", ".join(f"{worker} {version}" for worker, version in sorted(versions.items()))
        sentence = f"workers run different versions: {listed}. Finish the upgrade: restart the older workers."
        yield Finding("warning", CHECK, settings.topics.app_id, sentence)
    if versions and not before and not others and len(set(versions.values())) == 1:
        served = f"{len(versions)} worker(s) of version {next(iter(versions.values()))} report"
        yield Finding("ok", CHECK, settings.topics.app_id, f"{served}, with the same settings.")


def _age_ms(facts: Facts, report: Report) -> int:
    """Return the age of a report's content; a repeated report is as old as its first copy."""
    said_ms = report.appended_ms if report.progress.state is None else report.progress.at_ms
    return facts.now_ms - said_ms


def _silent(topics: TopicSettings, facts: Facts, fresh: list[Report]) -> Iterator[Finding]:
    served = {report.progress.partition for report in fresh}
    by: Counter[str] = Counter()
    for number in set(range(topics.partitions)) - served:
        report = facts.reports.get(number)
        by["" if report is None else report.progress.worker] += 1
    for worker, count in sorted(by.items()):
        if not worker:
            sentence = f"{count} partition(s) have never been reported. Check /health/ready of the workers."
            yield Finding("warning", CHECK, topics.app_id, sentence)
            continue
        sentence = (
            f"the worker at {worker} was the last to report {count} partition(s), and has been silent for over "
            f"{STALE_AFTER_MS // 1000} s. Their messages are not delivered. Start it again, or check "
            "/health/ready of the others."
        )
        yield Finding("error", CHECK, worker, sentence)


def _differing(
    ours: Mapping[str, str], settings_by_worker: Mapping[str, Mapping[str, str]], own_url: str
) -> Iterator[Finding]:
    """Yield workers whose settings differ from most, and settings of this process that differ from theirs."""
    common = _common(settings_by_worker, ours)
    for worker, theirs in sorted(settings_by_worker.items()):
        names = differing(common, theirs)
        if names:
            yield Finding("error", CHECK, worker, has_other(worker, names))
    if settings_by_worker and own_url not in settings_by_worker:
        names = differing(ours, common)
        if names:
            sentence = (
                f"these settings differ from the workers' settings: {', '.join(names)}. Topics and permissions were "
                "checked against the settings here. Run the doctor with a worker's environment."
            )
            yield Finding("warning", CHECK, "this environment", sentence)


def _common(settings_by_worker: Mapping[str, Mapping[str, str]], ours: Mapping[str, str]) -> dict[str, str]:
    """Return the most frequent hash of each setting among workers; in a tie, this process's hash."""
    common = {}
    for name in {name for theirs in settings_by_worker.values() for name in theirs}:
        counts = Counter(theirs[name] for theirs in settings_by_worker.values() if name in theirs)
        most = max(counts.values())
        best = [value for value, count in counts.items() if count == most]
        common[name] = ours[name] if ours.get(name) in best else min(best)
    return common
