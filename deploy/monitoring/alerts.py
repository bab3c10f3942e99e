"""The alert rules: what is wrong with an installation, for how long, and where the runbook has what to do."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

#: What makes an installation, among all that a Prometheus scrapes: labels that it lacks are empty.
INSTALLATION = "cluster, namespace, job"
_BY = f"by ({INSTALLATION})"
_NEEDED = f"max {_BY} (delay_partitions)"


@dataclass(frozen=True, slots=True)
class Alert:
    """One rule, and the heading of troubleshooting.md that has its runbook."""

    name: str
    expr: str
    lasting: str
    severity: str
    runbook: str
    summary: str

    def rule(self, runbooks: str) -> dict[str, Any]:
        """Return it as Prometheus reads it, with its runbook on the page at `runbooks`."""
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": self.lasting,
            "labels": {"severity": self.severity},
            "annotations": {"summary": self.summary, "runbook_url": f"{runbooks}#{self.runbook}"},
        }


ALERTS = (
    Alert(
        "PunctualNoWorker",
        # One that was there today is named; where none ever was, nothing is.
        f"(group {_BY} (max_over_time(delay_partitions[1d])) unless group {_BY} (delay_partitions))\n"
        "or (absent(delay_partitions) unless on () group (max_over_time(delay_partitions[1d])))",
        "2m",
        "critical",
        "no-worker",
        "No worker{{ with $labels.job }} of {{ . }}{{ end }} runs: no request is accepted and no message is delivered.",
    ),
    Alert(
        "PunctualPartitionsUnowned",
        f"{_NEEDED}\n- (count {_BY} (count by ({INSTALLATION}, partition) (delay_partition_owner_info)) "
        f"or 0 * {_NEEDED}) > 0",
        "2m",
        "critical",
        "partitions-without-a-worker",
        "{{ $value }} partitions of {{ $labels.job }} have no worker that reports them: their messages are late.",
    ),
    Alert(
        "PunctualOverdue",
        f"sum {_BY} (delay_overdue_messages) > 0",
        "1m",
        "warning",
        "messages-are-overdue",
        "{{ $value | humanize }} messages of {{ $labels.job }} are due and not delivered.",
    ),
    Alert(
        "PunctualDestinationHeld",
        f"max by ({INSTALLATION}, destination) (delay_destination_held) > 0",
        "5m",
        "warning",
        "a-destination-is-held",
        "{{ $labels.destination }} does not accept the messages of {{ $labels.job }}.",
    ),
    Alert(
        "PunctualDestinationBehindItsCap",
        f"time() - min by ({INSTALLATION}, destination) (delay_destination_paced_due_timestamp_seconds) > 900",
        "5m",
        "info",
        "a-destination-is-behind-its-rate-limit",
        "{{ $labels.destination }} gets more than its rate limit lets through: its messages were due "
        "{{ $value | humanizeDuration }} ago.",
    ),
    Alert(
        "PunctualPauseForgotten",
        f"time() - min by ({INSTALLATION}, destination) (delay_destination_paused_due_timestamp_seconds) > 3600",
        "5m",
        "warning",
        "a-pause-is-forgotten",
        "{{ $labels.destination }} of {{ $labels.job }} is paused, and its oldest message was due "
        "{{ $value | humanizeDuration }} ago.",
    ),
    Alert(
        "PunctualSpoolWaits",
        f"max {_BY} (delay_gateway_spool_age_seconds) > 300",
        "1m",
        "warning",
        "a-spool-waits",
        "Requests have waited in a spool of {{ $labels.job }} for {{ $value | humanizeDuration }}: Kafka does not "
        "accept them.",
    ),
    Alert(
        "PunctualRetrying",
        f"sum {_BY} (delay_retrying_messages) > 0",
        "1h",
        "info",
        "a-url-accepts-nothing",
        "{{ $value | humanize }} messages of {{ $labels.job }} have failed over HTTP and been tried again for an hour.",
    ),
    Alert(
        "PunctualIngestLag",
        f"sum {_BY} (delay_ingest_lag_records) > 10000",
        "10m",
        "warning",
        "requests-wait-to-be-read",
        "{{ $value | humanize }} requests of {{ $labels.job }} are unread.",
    ),
    Alert(
        "PunctualDeadLetters",
        f"sum by ({INSTALLATION}, reason) (increase(delay_dead_letters_total[15m])) > 0",
        "0m",
        "warning",
        "dead-letters-are-written",
        "Messages of {{ $labels.job }} became dead letters in the last 15 minutes: {{ $labels.reason }}.",
    ),
    Alert(
        "PunctualClockOff",
        "abs(delay_clock_offset_seconds) >= 0.1",
        "2m",
        "warning",
        "a-clock-is-off",
        "The clock of {{ $labels.instance }} is {{ $value | humanizeDuration }} off the brokers'.",
    ),
    Alert(
        "PunctualRestoreStuck",
        "delay_recovery_remaining_records > 0\n"
        "and delay_recovery_remaining_records >= (delay_recovery_remaining_records offset 10m > 0)",
        "5m",
        "critical",
        "a-restore-is-stuck",
        "{{ $labels.instance }} has {{ $value | humanize }} records to restore, no fewer than ten minutes ago.",
    ),
    Alert(
        "PunctualDiskLow",
        "delay_disk_free_bytes < 2 * delay_disk_free_wanted_bytes",
        "10m",
        "warning",
        "a-disk-is-full",
        "The disk of {{ $labels.instance }} has {{ $value | humanize1024 }}B left.",
    ),
    Alert(
        "PunctualDiskFull",
        "delay_disk_free_bytes < delay_disk_free_wanted_bytes",
        "1m",
        "critical",
        "a-disk-is-full",
        "The disk of {{ $labels.instance }} has {{ $value | humanize1024 }}B left: it stops reading requests.",
    ),
    Alert(
        "PunctualSettingsDiffer",
        f"max {_BY} (delay_settings_differing) > 0",
        "30m",
        "warning",
        "settings-differ",
        "Workers of {{ $labels.job }} differ in {{ $value }} settings.",
    ),
    Alert(
        "PunctualCatchUpCutShort",
        f"sum {_BY} (increase(delay_catch_up_cut_short_total[1h])) > 0",
        "0m",
        "warning",
        "delivery-began-too-soon",
        "Partitions of {{ $labels.job }} began to deliver before all commands were read: some may have come too late.",
    ),
    Alert(
        "PunctualForeignRecords",
        # A topic's counter begins with its first such record, whose increase nobody sees.
        f"sum by ({INSTALLATION}, topic) (increase(delay_foreign_records_total[1h])) > 0\n"
        f"or sum by ({INSTALLATION}, topic) (delay_foreign_records_total and "
        "time() - delay_foreign_records_created < 3600) > 0",
        "0m",
        "warning",
        "another-program-writes-to-internal-topics",
        "Another program writes to {{ $labels.topic }}.",
    ),
)


def groups(runbooks: str) -> dict[str, Any]:
    """Return the file of rules."""
    return {"groups": [{"name": "punctual", "rules": [alert.rule(runbooks) for alert in ALERTS]}]}


def expressions() -> Iterator[str]:
    """Yield what is asked of Prometheus."""
    yield from (alert.expr for alert in ALERTS)
