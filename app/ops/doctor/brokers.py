"""Checks the brokers: whether they answer, their versions, the controller."""

from collections.abc import Iterator

from app.kafka.transactions.id_pool import RESTED_S
from app.ops.doctor.facts import ClusterFacts, Versions
from app.ops.doctor.finding import Finding

CHECK, REACHED = "brokers", "cluster"
#: If connecting to brokers takes longer than this, an installation works, but starts and restores slowly.
_SLOW_MS = 1_000
#: The releases of brokers, each with an API key and the version of that API that it introduced.
#: (Kafka's protocol guide; KIP-664, KIP-516, KIP-903, KIP-951, KIP-853.)
_LIST_TRANSACTIONS, _FETCH = 66, 1
_CAME = (
    ("3.0", _LIST_TRANSACTIONS, 0),
    ("3.1", _FETCH, 13),
    ("3.5", _FETCH, 15),
    ("3.7", _FETCH, 16),
    ("3.9", _FETCH, 17),
)
#: Kafka 4.0 has removed all versions of Fetch below this (KIP-896).
_FETCH_OF_4 = 4
#: Kafka 3.6 asks the coordinator whether a batch belongs to a transaction (KIP-890).
_ADD_PARTITIONS, _VERIFIES = 24, 4


def release(versions: Versions) -> str | None:
    """Return the minimum release of a broker, None if it is older than 3.0."""
    if versions.get(_FETCH, (0, 0))[0] >= _FETCH_OF_4:
        return "4.0"
    releases = [name for name, key, newest in _CAME if versions.get(key, (0, -1))[1] >= newest]
    return releases[-1] if releases and releases[0] == "3.0" else None


def check(cluster: ClusterFacts, name: str = "", *, exactly_once: bool = False) -> Iterator[Finding]:
    """Yield the state of a cluster; `name` is its name in DELAY_CLUSTERS, empty for our own.

    Its transactions matter only with `exactly_once`.
    """
    where = f"the cluster {name} at {cluster.bootstrap}" if name else f"Kafka at {cluster.bootstrap}"
    subject = name or cluster.bootstrap
    if cluster.error:
        reason = cluster.error.rstrip(".")
        mend = "DELAY_CLUSTERS" if name else "KAFKA_BOOTSTRAP_SERVERS, the security settings"
        lost = " Messages for its topics are held until it can be reached." if name else ""
        sentence = f"{where} cannot be reached: {reason}.{lost} Check {mend} and that the brokers run."
        yield Finding("error", REACHED, subject, sentence)
        return
    if cluster.answered_ms >= _SLOW_MS:
        sentence = f"{where} took {cluster.answered_ms} ms to connect to. Check the network and DNS."
        yield Finding("warning", REACHED, subject, sentence)
    else:
        sentence = f"{where} responded within {cluster.answered_ms} ms; it has {len(cluster.brokers)} broker(s)."
        yield Finding("ok", REACHED, subject, sentence)
    if cluster.controller < 0:
        sentence = (
            f"{where} has no controller, so topics cannot be created and leaders cannot be elected. Check its "
            "controllers' logs."
        )
        yield Finding("error", CHECK, subject, sentence)
    yield from _each(cluster, subject, exactly_once=exactly_once)


def check_session(cluster: ClusterFacts, session_timeout_ms: int) -> Iterator[Finding]:
    """Yield an error if the brokers' groups do not allow the worker's session timeout."""
    if cluster.session_ms is None or cluster.session_ms[0] <= session_timeout_ms <= cluster.session_ms[1]:
        return
    shortest, longest = cluster.session_ms
    sentence = (
        f"DELAY_SESSION_TIMEOUT is {session_timeout_ms} ms, but the brokers allow {shortest} to {longest} ms "
        "(group.min.session.timeout.ms, group.max.session.timeout.ms), so no worker can join its group. Set a value "
        "in this range."
    )
    yield Finding("error", CHECK, cluster.bootstrap, sentence)


def check_ids(cluster: ClusterFacts) -> Iterator[Finding]:
    """Yield an error if the brokers forget transactional ids before an idle worker uses them again."""
    kept_ms = cluster.id_expiration_ms
    if kept_ms is None or kept_ms >= 2 * RESTED_S * 1_000:
        return
    sentence = (
        f"the brokers forget transactional ids after {kept_ms} ms (transactional.id.expiration.ms): with "
        "DELAY_GUARANTEE=exactly_once, an idle worker exits. Raise it to an hour or more."
    )
    yield Finding("error", CHECK, cluster.bootstrap, sentence)


def _each(cluster: ClusterFacts, subject: str, *, exactly_once: bool) -> Iterator[Finding]:
    releases = set()
    for node, versions in cluster.brokers.items():
        if versions is None:
            sentence = (
                f"broker {node} does not respond. Check that it is running and reachable at its advertised listener."
            )
            yield Finding("warning", CHECK, f"broker {node}", sentence)
            continue
        oldest = release(versions)
        releases.add(oldest)
        if oldest is None:
            sentence = f"broker {node} is older than Kafka 3.0, which Punctual needs. Upgrade it."
            yield Finding("error", CHECK, f"broker {node}", sentence)
        elif exactly_once and versions.get(_ADD_PARTITIONS, (0, 0))[1] < _VERIFIES:
            sentence = (
                f"broker {node} is older than Kafka 3.6, which guards transactions (KIP-890): after a destination was "
                "silent for a moment, exactly_once may deliver there twice. Upgrade it."
            )
            yield Finding("warning", CHECK, f"broker {node}", sentence)
    if len(releases) > 1:
        names = ", ".join(sorted(name or "older than 3.0" for name in releases))
        sentence = f"the brokers run different versions: {names} or newer. Upgrade the older brokers."
        yield Finding("warning", CHECK, subject, sentence)
    elif releases and None not in releases:
        yield Finding("ok", CHECK, subject, f"the brokers run Kafka {releases.pop()} or newer.")
