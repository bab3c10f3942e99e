"""Each check, with facts that are right and facts that are wrong."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.engine.reports.agreement import fingerprint
from app.engine.reports.reader import ProgressRecord, Report
from app.engine.topics.internal_topics import plan
from app.ops.doctor import brokers, certificates, clocks, destinations, disk, lag, permissions, process, topics, workers
from app.ops.doctor.facts import ClockFacts, ClusterFacts, Facts, MachineFacts, PartitionReplicas, Topic
from app.ops.doctor.finding import Finding, ordered, worst
from app.settings.settings import Settings
from tests.harness.certificates import Authority

NOW_MS = 1_800_000_000_000
OURS = {"DELAY_DESTINATIONS": "orders", "DELAY_PARTITIONS": "2", "DELAY_REPLICATION_FACTOR": "3"}
KAFKA_3, KAFKA_4 = {1: (0, 17), 66: (0, 1)}, {1: (4, 17), 66: (0, 1)}
REQUESTS, CHANGELOG = "delay-requests", "delay-delays-changelog"
USUAL = {
    "max.message.bytes": "1048588",
    "min.insync.replicas": "2",
    "message.timestamp.type": "LogAppendTime",
    "unclean.leader.election.enable": "false",
    "retention.ms": "604800000",
    "cleanup.policy": "delete",
}


def settings(**env: str) -> Settings:
    return Settings.from_env(OURS | env)


def topic(name: str, partitions: int = 2, replicas: int = 3, **config: str) -> Topic:
    nodes = tuple(range(1, replicas + 1))
    wanted = {key.replace("_", "."): value for key, value in config.items()}
    return Topic(
        name=name,
        partitions=(PartitionReplicas(1, nodes, nodes),) * partitions,
        config={**USUAL, **wanted},
        operations=frozenset({"Read", "Write", "Describe", "DescribeConfigs"}),
    )


def healthy() -> dict[str, Topic]:
    """Return the topics as a worker makes them, and a destination."""
    made = {name: topic(name, of, 3, **config) for name, (of, config) in plan(settings().topics).items()}
    return {**made, "orders": topic("orders")}


def report(partition: int, worker: str = "http://a", *, ahead_ms: int = 0, **fields: Any) -> Report:
    told = {"settings": fingerprint(settings()) if partition == 0 else {}, "version": "0.2.0", **fields}
    progress = ProgressRecord(
        partition=partition,
        at_ms=NOW_MS + ahead_ms,
        fired_to_ms=0,
        positions={},
        pending={},
        overdue=0,
        worker=worker,
        **told,
    )
    return Report(progress, 0, NOW_MS)


def facts(changed: Iterable[Topic] = (), *, without: str = "", **others: Any) -> Facts:
    known = {**healthy(), **{one.name: one for one in changed}}
    known.pop(without, None)
    cluster = ClusterFacts(
        bootstrap="kafka:9092",
        brokers={1: KAFKA_4, 2: KAFKA_4, 3: KAFKA_4},
        controller=1,
        topics=known,
        group_operations=frozenset({"Read", "Describe"}),
    )
    given = {"reports": {0: report(0), 1: report(1)}, "env": OURS, "machine": machine(), **others}
    return Facts(now_ms=NOW_MS, cluster=cluster, **given)


def machine(**changed: Any) -> MachineFacts:
    usual = {"data_path": "/data", "free": 1 << 40, "total": 1 << 41, "open_files": 65_536, "python": "3.11.7"}
    return MachineFacts(**{**usual, **changed})


def wrong(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    return [(one.level, one.subject) for one in findings if one.level != "ok"]


def said(findings: Iterable[Finding], subject: str) -> str:
    return " ".join(one.sentence for one in findings if one.subject == subject and one.level != "ok")


def test_a_healthy_installation_has_no_problems() -> None:
    ours, known = settings(), facts()
    every = [
        *brokers.check(known.cluster),
        *topics.check(ours.topics, ours.retention, known),
        *lag.check(ours.topics, known),
        *destinations.check(ours.topics, ours.destinations, known),
        *permissions.check(ours, known),
        *clocks.check(known),
        *workers.check(ours, known),
        *disk.check(known.machine),
        *process.check(ours.topics, ours.destinations, ours.web, known),
    ]
    assert wrong(every) == []
    assert {one.check for one in every} >= {"topics", "retention", "destinations", "rights", "clock", "workers", "disk"}


def test_the_worst_comes_first() -> None:
    levels = ordered(Finding(level, "", "", "") for level in ("ok", "error", "warning"))
    assert [one.level for one in levels] == ["error", "warning", "ok"]
    assert (worst(levels), worst([])) == ("error", "ok")


# brokers -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("versions", "release"),
    [
        ({1: (0, 12)}, None),
        ({1: (0, 12), 66: (0, 0)}, "3.0"),
        ({1: (0, 15), 66: (0, 0)}, "3.5"),
        ({1: (0, 17), 66: (0, 1)}, "3.9"),
        ({1: (4, 18), 66: (0, 2)}, "4.0"),
    ],
)
def test_a_brokers_release_is_inferred_from_its_api_versions(
    versions: dict[int, tuple[int, int]], release: str | None
) -> None:
    assert brokers.release(versions) == release


@pytest.mark.parametrize(("newest", "exactly_once", "warned"), [(3, True, True), (4, True, False), (3, False, False)])
def test_brokers_that_do_not_guard_transactions_are_reported_where_it_matters(
    newest: int, *, exactly_once: bool, warned: bool
) -> None:
    old = msgspec.structs.replace(facts().cluster, brokers={1: {1: (0, 15), 24: (0, newest), 66: (0, 0)}})
    found = list(brokers.check(old, exactly_once=exactly_once))

    assert wrong(found) == ([("warning", "broker 1")] if warned else [])
    assert ("older than Kafka 3.6" in said(found, "broker 1")) == warned


def test_a_cluster_that_cannot_be_reached_is_one_error_and_not_checked_further() -> None:
    assert wrong(brokers.check(ClusterFacts(bootstrap="kafka:1", error="nobody answers there"))) == [
        ("error", "kafka:1")
    ]


def test_brokers_that_are_silent_old_or_without_a_controller_are_named() -> None:
    mixed = msgspec.structs.replace(
        facts().cluster, brokers={1: KAFKA_4, 2: None, 3: {1: (0, 11)}}, controller=-1, answered_ms=2_000
    )
    found = list(brokers.check(mixed))
    assert ("warning", "broker 2") in wrong(found)
    assert ("error", "broker 3") in wrong(found)
    for words in ("no controller", "different versions", "took 2000 ms"):
        assert words in said(found, "kafka:9092")


# topics --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("changed", "level", "words"),
    [
        (
            topic(CHANGELOG, cleanup_policy="delete", max_message_bytes="9999999"),
            "error",
            "Set cleanup.policy=compact, and keep all data directories",
        ),
        (topic(REQUESTS, 3), "error", "has 3 partitions, but needs 2"),
        (topic(REQUESTS, cleanup_policy="compact"), "error", "Set cleanup.policy=delete."),
        (topic(REQUESTS, replicas=1), "warning", "DELAY_REPLICATION_FACTOR is 3"),
        (topic(REQUESTS, min_insync_replicas="1"), "warning", "Set min.insync.replicas=2."),
        (topic(REQUESTS, unclean_leader_election_enable="true"), "warning", "unclean.leader.election.enable=true"),
        (topic(REQUESTS, replicas=2), "warning", "DELAY_REPLICATION_FACTOR is 3"),
        (Topic(name=REQUESTS, error="TopicAuthorizationFailedError"), "error", "Grant Describe and DescribeConfigs"),
        (
            Topic(name=REQUESTS, error="UnknownTopicOrPartitionError"),
            "error",
            "has been deleted: workers used it before",
        ),
        (
            Topic(name=REQUESTS, partitions=(PartitionReplicas(-1, (1, 2, 3), ()),) * 2, config=USUAL),
            "error",
            "no leader",
        ),
        (
            Topic(name=REQUESTS, partitions=(PartitionReplicas(1, (1, 2, 3), (1, 2)),) * 2, config=USUAL),
            "warning",
            "too few in-sync replicas",
        ),
        (
            Topic(name=REQUESTS, partitions=(PartitionReplicas(1, (1, 2, 3), (1,)),) * 2, config=USUAL),
            "error",
            "written there",
        ),
        (Topic(name=REQUESTS, config_error="TopicAuthorizationFailedError"), "error", "Grant DescribeConfigs on it"),
    ],
)
def test_a_topic_that_is_wrong_is_named_with_what_to_do(changed: Topic, level: str, words: str) -> None:
    found = list(topics.check(settings().topics, settings().retention, facts([changed])))
    assert (level, changed.name) in wrong(found)
    assert {subject for _, subject in wrong(found)} == {changed.name}
    assert words in said(found, changed.name)


def test_more_replicas_in_sync_than_there_are_are_missed_before_kafka_4() -> None:
    few = facts([topic(REQUESTS, replicas=1)])
    old = msgspec.structs.replace(few.cluster, brokers={1: KAFKA_3})
    found = list(topics.check(settings().topics, settings().retention, msgspec.structs.replace(few, cluster=old)))

    assert ("error", REQUESTS) in wrong(found)
    assert "accepts no records" in said(found, REQUESTS)
    assert not [
        level for level, _ in wrong(topics.check(settings().topics, settings().retention, few)) if level == "error"
    ]


def test_a_session_that_brokers_do_not_take_is_an_error() -> None:
    strict = msgspec.structs.replace(facts().cluster, session_ms=(10_000, 1_800_000))

    assert wrong(brokers.check_session(strict, 6_000)) == [("error", "kafka:9092")]
    assert list(brokers.check_session(strict, 10_000)) == list(brokers.check_session(facts().cluster, 6_000)) == []


def test_transactional_ids_that_are_forgotten_soon_are_an_error() -> None:
    soon = msgspec.structs.replace(facts().cluster, id_expiration_ms=600_000)

    assert wrong(brokers.check_ids(soon)) == [("error", "kafka:9092")]
    assert list(brokers.check_ids(msgspec.structs.replace(soon, id_expiration_ms=3_600_000))) == []


@pytest.mark.parametrize("name", [REQUESTS, "delay-forwards", "delay-events"])
def test_a_compacted_topic_is_reported_once(name: str) -> None:
    of = healthy()[name].config or {}
    changed = msgspec.structs.replace(healthy()[name], config={**of, "cleanup.policy": "compact"})
    assert wrong(topics.check(settings().topics, settings().retention, facts([changed]))) == [("error", name)]


def test_before_the_first_start_missing_topics_are_no_errors() -> None:
    found = list(topics.check(settings().topics, settings().retention, facts(without=REQUESTS, reports={})))
    assert wrong(found) == [("warning", REQUESTS)]


def test_a_safe_configuration_that_differs_from_a_workers_default_is_mentioned() -> None:
    found = list(
        topics.check(settings().topics, settings().retention, facts([topic("delay-events", retention_ms="3600000")]))
    )
    assert wrong(found) == []
    assert any("retention.ms=3600000 instead of 2592000000" in one.sentence for one in found)


def test_an_input_that_is_read_later_than_it_is_kept_is_an_error() -> None:
    behind = {0: report(0), 1: report(1, read_to={REQUESTS: NOW_MS - 400_000_000})}
    found = list(lag.check(settings().topics, facts(reports=behind)))
    assert wrong(found) == [("error", REQUESTS)]
    assert "partition 1" in said(found, REQUESTS)


def test_a_short_retention_is_a_warning_and_an_endless_one_is_none() -> None:
    assert wrong(lag.check(settings().topics, facts([topic(REQUESTS, retention_ms="3600000")]))) == [
        ("warning", REQUESTS)
    ]
    assert wrong(lag.check(settings().topics, facts([topic(REQUESTS, retention_ms="-1")]))) == []


# destinations, rights ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (Topic(name="orders", error="UnknownTopicOrPartitionError"), "does not exist"),
        (Topic(name="orders", error="TopicAuthorizationFailedError"), "Grant Write on it"),
        (topic("orders", max_message_bytes="1000"), "accepts messages of up to 1000 bytes, the inputs up to 1048588"),
        (
            Topic(name="orders", partitions=(PartitionReplicas(-1, (1,), ()),), config=USUAL),
            "1 partition(s) without a leader",
        ),
    ],
)
def test_a_destination_that_accepts_no_messages_is_a_warning(changed: Topic, words: str) -> None:
    found = list(destinations.check(settings().topics, settings().destinations, facts([changed])))
    assert wrong(found) == [("warning", "orders")]
    assert words in said(found, "orders")


def test_a_destination_may_be_on_another_cluster_alone() -> None:
    absent = Topic(name="orders", error="UnknownTopicOrPartitionError")
    other = ClusterFacts(bootstrap="other:9092", topics={"orders": topic("orders")})
    assert (
        wrong(destinations.check(settings().topics, settings().destinations, facts([absent], others={"other": other})))
        == []
    )


def test_only_exact_names_are_looked_up_and_internal_topics_are_not_destinations() -> None:
    ours = settings(DELAY_DESTINATIONS="orders.*,x:a|b,delay-events,*")
    assert set(destinations.named(ours.destinations)) == {"a", "b", "delay-events"}
    assert ("warning", "delay-events") in wrong(destinations.check(ours.topics, ours.destinations, facts()))


def test_rights_that_are_lacking_are_named() -> None:
    read_only = msgspec.structs.replace(topic("orders"), operations=frozenset({"Read"}))
    found = list(permissions.check(settings(), facts([read_only])))
    assert wrong(found) == [("error", "orders")]
    assert "lacks Write on topic orders" in said(found, "orders")


def test_a_destination_that_may_not_be_read_is_a_warning() -> None:
    write_only = msgspec.structs.replace(topic("orders"), operations=frozenset({"Write"}))
    there = ClusterFacts(bootstrap="h:1", brokers={1: KAFKA_4}, topics={"orders": write_only})
    known = msgspec.structs.replace(facts([write_only]), others={"us": there})
    found = list(permissions.check(settings(DELAY_CLUSTERS="us=h:1"), known))
    assert wrong(found) == [("warning", "orders"), ("warning", "orders of cluster us")]
    assert "lacks Read on topic orders. Grant it" in said(found, "orders")
    assert "may be delivered twice" in said(found, "orders")


def test_rights_on_other_clusters_are_those_of_their_own_users() -> None:
    ours = settings(DELAY_CLUSTERS="us=h:1")
    read_only = msgspec.structs.replace(topic("orders"), operations=frozenset({"Read"}))
    there = ClusterFacts(bootstrap="h:1", brokers={1: KAFKA_4}, topics={"orders": read_only})
    found = list(permissions.check(ours, msgspec.structs.replace(facts(), others={"us": there})))
    assert wrong(found) == [("error", "orders of cluster us")]
    assert "lacks Write on topic orders of cluster us" in said(found, "orders of cluster us")


@pytest.mark.parametrize(("days", "level"), [(60, None), (13, "warning"), (-1, "error")])
def test_certificates_that_end_are_named_before(days: int, level: str | None) -> None:
    ends = {"broker 1": NOW_MS + days * 86_400_000 + 1}
    found = list(certificates.check(ClusterFacts(bootstrap="h:1", certificates=ends), NOW_MS, "us"))
    assert wrong(found) == ([] if level is None else [(level, "broker 1")])
    assert "the certificate of broker 1 of cluster us" in found[0].sentence


def test_certificates_in_files_are_checked(tmp_path: Path) -> None:
    Authority("ours").write(tmp_path, "worker")
    files = {name: str(tmp_path / name) for name in ("ca.pem", "cert.pem", "key.pem")}
    env = {"KAFKA_SSL_CAFILE": files["ca.pem"], "KAFKA_SSL_CERTFILE": files["cert.pem"]}
    ours = settings(KAFKA_SECURITY_PROTOCOL="SSL", KAFKA_SSL_KEYFILE=files["key.pem"], **env)
    found = certificates.of_files(ours.kafka.login)
    days = {name: round((end_ms / 1000 - time.time()) / 86_400) for name, end_ms in found.items()}
    assert days == {files["cert.pem"]: 30, files["ca.pem"]: 365}
    assert certificates.of_files(settings().kafka.login) == {}


def test_rights_that_brokers_do_not_tell_are_not_known() -> None:
    silent = [msgspec.structs.replace(one, operations=None) for one in healthy().values()]
    known = facts(silent)
    cluster = msgspec.structs.replace(known.cluster, group_operations=None)
    found = list(permissions.check(settings(), msgspec.structs.replace(known, cluster=cluster)))
    assert [(one.level, "unknown" in one.sentence) for one in found] == [("ok", True)]


# clocks, workers -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("ahead_ms", "level"), [(50, None), (300, "warning"), (1_500, "error"), (-400, None), (-1_500, "warning")]
)
def test_a_workers_clock_is_judged_by_its_reports(ahead_ms: int, level: str | None) -> None:
    found = clocks.check(facts(reports={0: report(0, ahead_ms=ahead_ms)}))
    assert wrong(found) == ([] if level is None else [(level, "http://a")])


def test_a_worker_knows_its_own_clock_and_its_jumps() -> None:
    known = facts(clock=ClockFacts(-150, 2), own_url="http://a")
    assert wrong(clocks.check(known)) == [("warning", "http://a")] * 2


def test_a_worker_with_other_settings_is_named_with_them() -> None:
    theirs = fingerprint(settings(DELAY_GUARANTEE="exactly_once", DELAY_DESTINATIONS="*"))
    found = list(workers.check(settings(), facts(reports={0: report(0), 1: report(1, "http://b", settings=theirs)})))
    assert wrong(found) == [("error", "http://b")]
    assert "DELAY_DESTINATIONS, DELAY_GUARANTEE." in said(found, "http://b")


def test_it_is_this_environment_that_differs_if_all_workers_agree() -> None:
    found = list(workers.check(settings(DELAY_DEDUPE_WINDOW="PT1H"), facts()))
    assert wrong(found) == [("warning", "this environment")]
    assert "DELAY_DEDUPE_WINDOW" in said(found, "this environment")


def test_other_versions_and_silence_are_named() -> None:
    old = Report(report(1, "http://b").progress, 0, NOW_MS - 60_000)
    assert wrong(workers.check(settings(), facts(reports={0: report(0), 1: old}))) == [("error", "http://b")]
    mixed = {0: report(0), 1: report(1, "http://b", version="0.1.0")}
    assert wrong(workers.check(settings(), facts(reports=mixed))) == [("warning", "delay")]
    assert wrong(workers.check(settings(), facts(reports={}))) == [("warning", "delay")]


# this machine --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("changed", "level"),
    [
        ({"error": "/data cannot be written by this user"}, "error"),
        ({"free": 1 << 20}, "error"),
        ({"free": 3 << 29}, "warning"),
        ({"filesystem": "nfs4"}, "warning"),
        ({"filesystem": "tmpfs", "user": 17}, None),
    ],
)
def test_a_data_directory_is_judged(changed: dict[str, Any], level: str | None) -> None:
    assert wrong(disk.check(machine(**changed))) == ([] if level is None else [(level, "/data")])


def test_a_typo_a_low_limit_and_a_wrong_library_are_named() -> None:
    libraries = {"aiokafka": ("0.15.1", "<0.15,>=0.14.0")}
    known = facts(env={**OURS, "DELAY_APPID": "x"}, machine=machine(open_files=256, libraries=libraries))
    assert wrong(process.check(settings().topics, settings().destinations, settings().web, known)) == [
        ("warning", "DELAY_APPID"),
        ("warning", "open files"),
        ("error", "libraries"),
    ]


@pytest.mark.parametrize(
    ("release", "fine"), [("0.14.0", True), ("0.14.9", True), ("0.15.0", False), ("0.13.2", False)]
)
def test_a_release_is_within_bounds_or_not(release: str, fine: bool) -> None:  # noqa: FBT001 - an expectation
    assert process.fits(release, "<0.15,>=0.14.0") is fine


def test_reports_that_cannot_be_read_are_not_taken_for_workers_that_are_not_there() -> None:
    [found] = workers.check(settings(), facts(reports={}, reports_read=False))

    assert found.level == "error"
    assert "some worker reports cannot be read" in found.sentence
    assert "Start one" not in found.sentence
