"""The dashboard: whether everything is on time, then why not, then what it costs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from deploy.monitoring.alerts import INSTALLATION

#: What the variables at the top of the dashboard choose.
_AT = 'job=~"$job", namespace=~"$namespace"'
_RATE = "$__rate_interval"
_WIDTH = 24


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: its queries by what their lines are called."""

    title: str
    queries: dict[str, str]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    height: int = 7
    #: A stat turns red from here on.
    bad_from: float | None = None
    stacked: bool = False
    about: str = ""


def _sum(metric: str, *by: str) -> str:
    return f"sum{f' by ({chr(44).join(by)})' if by else ''} ({metric}{{{_AT}}})"


def _quantile(share: float, metric: str) -> str:
    return f"histogram_quantile({share}, sum by (le) (rate({metric}_bucket{{{_AT}}}[{_RATE}])))"


def _rate(metric: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}{{{_AT}}}[{_RATE}]))"


_ON_TIME = (
    Panel("Overdue", {"": _sum("delay_overdue_messages")}, kind="stat", width=4, height=4, bad_from=1),
    Panel(
        "Oldest that is late",
        {"": f"max(delay_oldest_overdue_seconds{{{_AT}}})"},
        "s",
        "stat",
        width=4,
        height=4,
        bad_from=1,
    ),
    Panel("Pending", {"": _sum("delay_pending_messages")}, kind="stat", width=4, height=4),
    Panel(
        "Next is due in",
        {"": f"min(delay_next_due_timestamp_seconds{{{_AT}}}) - time()"},
        "s",
        "stat",
        width=4,
        height=4,
    ),
    Panel(
        "Partitions without a worker",
        {
            "": f"sum(max by ({INSTALLATION}) (delay_partitions{{{_AT}}}))"
            f" - (count(count by ({INSTALLATION}, partition) (delay_partition_owner_info{{{_AT}}})) or vector(0))"
        },
        kind="stat",
        width=4,
        height=4,
        bad_from=1,
    ),
    Panel(
        "Workers by version",
        {"{{version}}": f"count by (version) (delay_build_info{{{_AT}}})"},
        kind="stat",
        width=4,
        height=4,
    ),
    Panel(
        "Lateness of deliveries",
        {"median": _quantile(0.5, "delay_lateness_seconds"), "99 %": _quantile(0.99, "delay_lateness_seconds")},
        "s",
        about="From the due time until it was sent for the first time. The buckets are 1 ms to an hour.",
    ),
    Panel("Messages by event", {"{{event}}": _rate("delay_messages_total", "event")}, "ops"),
    Panel("Dead letters by reason", {"{{reason}}": f"{_rate('delay_dead_letters_total', 'reason')} > 0"}, "ops"),
)

_WAITING = (
    Panel("Pending by destination", {"{{destination}}": _sum("delay_pending_messages", "destination")}, stacked=True),
    Panel("Pending by when it is due", {"within {{le}} s": _sum("delay_pending_by_due", "le")}),
    Panel(
        "Held, paused and capped",
        {
            "{{destination}} is held": f"max by (destination) (delay_destination_held{{{_AT}}})",
            "{{destination}} is paused": f"max by (destination) (delay_destination_paused{{{_AT}}})",
            "{{destination}} gets at most": f"max by (destination) (delay_destination_rate_per_second{{{_AT}}})",
        },
        about="1 while it is held or paused, messages a second for a cap.",
    ),
    Panel(
        "Late by caps and pauses",
        {
            "{{destination}}, by its cap": (
                f"time() - min by (destination) (delay_destination_paced_due_timestamp_seconds{{{_AT}}})"
            ),
            "{{destination}}, by a pause": (
                f"time() - min by (destination) (delay_destination_paused_due_timestamp_seconds{{{_AT}}})"
            ),
        },
        "s",
    ),
    Panel("Tried again over HTTP", {"messages": _sum("delay_retrying_messages")}),
    Panel(
        "Acknowledged queues",
        {
            "{{topic}} of {{group}}: handed out": f"max by (topic, group) (delay_queue_unacked_messages{{{_AT}}})",
            "{{topic}} of {{group}}: breakers open": f"max by (topic, group) (delay_queue_breakers_open{{{_AT}}})",
        },
    ),
)

_WORKERS = (
    Panel("Requests not read yet", {"{{topic}}": _sum("delay_ingest_lag_records", "topic")}),
    Panel(
        "Commits",
        {"median": _quantile(0.5, "delay_commit_seconds"), "99 %": _quantile(0.99, "delay_commit_seconds")},
        "s",
    ),
    Panel("Left to restore", {"{{instance}}": f"delay_recovery_remaining_records{{{_AT}}}"}),
    Panel(
        "Partitions by worker",
        {"{{worker}}": f"count by (worker) (delay_partition_owner_info{{{_AT}}})"},
        stacked=True,
    ),
    Panel(
        "Clocks ahead of the brokers'",
        {
            "{{instance}}": f"delay_clock_offset_seconds{{{_AT}}}",
            "{{instance}} jumps": f"increase(delay_clock_jumps_total{{{_AT}}}[{_RATE}]) > 0",
        },
        "s",
    ),
    Panel(
        "Free disk",
        {
            "{{instance}}": f"delay_disk_free_bytes{{{_AT}}}",
            "wanted": f"max(delay_disk_free_wanted_bytes{{{_AT}}})",
        },
        "bytes",
    ),
    Panel(
        "Namespaces",
        {
            "{{namespace}}": f"sum by (namespace) (delay_namespace_pending_messages{{{_AT}}})",
            "{{namespace}} may have": f"max by (namespace) (delay_namespace_quota_messages{{{_AT}}})",
        },
    ),
    Panel(
        "Bytes of namespaces",
        {
            "{{namespace}}": f"sum by (namespace) (delay_namespace_pending_bytes{{{_AT}}})",
            "{{namespace}} may have": f"max by (namespace) (delay_namespace_quota_bytes{{{_AT}}})",
        },
        "bytes",
    ),
    Panel(
        "Remembered ids of namespaces",
        {
            "{{namespace}}": f"sum by (namespace) (delay_namespace_remembered_ids{{{_AT}}})",
            "{{namespace}} may have": f"max by (namespace) (delay_namespace_quota_remembered_ids{{{_AT}}})",
        },
    ),
    Panel(
        "Processes of workers",
        {
            "{{instance}} serve": f"sum by (instance) (delay_process_up{{{_AT}}})",
            "{{instance}} {{process}} was started again": (
                f"increase(delay_process_restarts_total{{{_AT}}}[{_RATE}]) > 0"
            ),
        },
    ),
    Panel("CPU", {"{{instance}}": f"rate(process_cpu_seconds_total{{{_AT}}}[{_RATE}])"}, "percentunit"),
    Panel("Memory", {"{{instance}}": f"process_resident_memory_bytes{{{_AT}}}"}, "bytes"),
    Panel(
        "Not as it should be",
        {
            "{{worker}} has other settings": f"max by (worker) (delay_settings_differing{{{_AT}}})",
            "began to fire too soon": f"sum(increase(delay_catch_up_cut_short_total{{{_AT}}}[{_RATE}])) > 0",
            "waits for its inputs": f"sum(rate(delay_waited_for_inputs_seconds_total{{{_AT}}}[{_RATE}])) > 0",
            "not ours on {{topic}}": f"sum by (topic) (increase(delay_foreign_records_total{{{_AT}}}[{_RATE}])) > 0",
        },
    ),
)

_GATEWAY = (
    Panel("Records that came", {"{{outcome}}": _rate("delay_gateway_records_total", "outcome")}, "cps", stacked=True),
    Panel(
        "Refused",
        {"{{type}} of {{caller}}": _rate("delay_gateway_refused_total", "type, caller")},
        "cps",
        about="Requests that were refused, by the problem's type and the token's name.",
    ),
    Panel(
        "Cut off",
        {"{{reason}}": _rate("delay_gateway_cut_off_total", "reason")},
        "cps",
        about="Connections that were too slow, or too many.",
    ),
    Panel(
        "Where records go",
        {"{{state}}": _sum("delay_gateway_state", "state")},
        stacked=True,
        about="Gateways that write to Kafka, to their spools, or empty those.",
    ),
    Panel(
        "Spool",
        {
            "taken": _sum("delay_gateway_spool_bytes"),
            "room": _sum("delay_gateway_spool_limit_bytes"),
        },
        "bytes",
    ),
    Panel("Oldest in a spool", {"": f"max(delay_gateway_spool_age_seconds{{{_AT}}})"}, "s"),
    Panel(
        "Through the spool",
        {
            "waits": _sum("delay_gateway_spool_records"),
            "has gone to Kafka": f"sum(increase(delay_gateway_drained_records_total{{{_AT}}}[{_RATE}]))",
            "dead letters": f"sum(increase(delay_gateway_dead_letters_total{{{_AT}}}[{_RATE}]))",
        },
    ),
    Panel(
        "Until Kafka has it",
        {f"p{round(share * 100)}": _quantile(share, "delay_gateway_produce_seconds") for share in (0.5, 0.99)},
        "s",
    ),
)
ROWS = {"On time": _ON_TIME, "What waits": _WAITING, "Workers": _WORKERS, "Gateways": _GATEWAY}


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    return {
        "uid": "punctual",
        "title": "Punctual",
        "tags": ["punctual", "kafka"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": list(_variables())},
        "panels": list(_panels()),
    }


def expressions() -> Iterator[str]:
    """Yield what is asked of Prometheus."""
    for panels in ROWS.values():
        for panel in panels:
            yield from panel.queries.values()


def _variables() -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    for name in ("namespace", "job"):
        yield {
            "name": name,
            "label": name.capitalize(),
            "type": "query",
            "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "query": f'label_values({{__name__=~"delay_partitions|delay_gateway_state"}}, {name})',
            "refresh": 2,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        }


def _panels() -> Iterator[dict[str, Any]]:
    number, top = 0, 0
    for title, panels in ROWS.items():
        number += 1
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": _place(0, top, _WIDTH, 1)}
        left, top, bottom = 0, top + 1, top + 1
        for panel in panels:
            if left + panel.width > _WIDTH:
                left, top = 0, bottom
            number += 1
            yield _panel(panel, number) | {"gridPos": _place(left, top, panel.width, panel.height)}
            left, bottom = left + panel.width, max(bottom, top + panel.height)
        top = bottom


def _place(left: int, top: int, width: int, height: int) -> dict[str, int]:
    return {"x": left, "y": top, "w": width, "h": height}


def _panel(panel: Panel, number: int) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    defaults: dict[str, Any] = {"unit": panel.unit, "custom": {}}
    if panel.bad_from is not None:
        steps = [{"color": "green", "value": None}, {"color": "red", "value": panel.bad_from}]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    if panel.stacked:
        defaults["custom"] = {"fillOpacity": 30, "stacking": {"mode": "normal", "group": "A"}}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": source,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": source, "expr": expr, "legendFormat": legend}
            for place, (legend, expr) in enumerate(panel.queries.items())
        ],
    }
