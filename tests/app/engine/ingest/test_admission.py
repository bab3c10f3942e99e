"""What clusters know of destinations: other installations' topics, our own by another name, one too many."""

import asyncio
import itertools
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from app.engine.ingest.admission import SUFFIXES, Admission
from app.engine.ingest.census import Census
from app.engine.ingest.destination_topics import DestinationTopics, Elsewhere, Neighbours
from app.engine.ingest.policy import Policy
from app.settings.quotas import senders
from app.settings.settings import Settings
from punctual.contract.request import Parked, Refusal, Request
from tests.app.fake_kafka import ScriptedCluster
from tests.punctual.contract.records import NOW

if TYPE_CHECKING:
    from punctual.contract.record import Record

RECORD = cast("Record", None)
_ids = itertools.count()


class Named(ScriptedCluster):
    """A cluster with an id."""

    def __init__(self, id_: str, **partitions: int) -> None:
        super().__init__(**partitions)
        self.name, self.slow_s, self.asked = id_, 0.0, 0

    async def id(self) -> str:
        return self.name

    async def refresh(self, topics: Any) -> set[str]:
        self.asked += 1
        await asyncio.sleep(self.slow_s)
        return await super().refresh(topics)


class Site:
    """A policy with two known clusters, and the requests that wait."""

    def __init__(self, limit: int = 100, **env: str) -> None:
        self.own = Named("own", orders=4, payments=4)
        self.other = Named("other", orders=2)
        self.stores: dict[int, Any] = {}
        self.reports: dict[int, Any] = {}
        self.now = 0.0
        clusters = {"DELAY_CLUSTERS": "other=h:1,alias=h:2"}
        self.settings = Settings.from_env({"DELAY_DESTINATIONS": "*", **clusters, **env})
        others = {"other": self.other, "alias": self.own}
        self.destinations = DestinationTopics(cast("Any", self.own))
        self.policy = Policy(
            self.settings,
            Admission(
                self.settings.topics,
                self.destinations,
                Neighbours.at_home(cast("Any", self.own)),
                {name: Elsewhere(cast("Any", cluster), "own") for name, cluster in others.items()},
                Census(
                    limit,
                    self.stores,
                    self.reports,
                    lambda: self.now,
                    shared=len(senders(self.settings.topics.namespaces, self.settings.topics.inputs)) > 1,
                ),
            ),
        )

    async def judged(self, *requests: Request) -> list[str]:
        """Return "" or the reason of the refusal for each request."""
        found: list[tuple[Record, Request | Refusal]] = []
        for asked in requests:
            try:
                self.policy.check(asked, NOW)
                found.append((RECORD, asked))
            except Refusal as refusal:
                found.append((RECORD, refusal))
        admitted = await self.policy.admitted(found, forwarded=False)
        return [str(asked.reason) if isinstance(asked, Refusal) else "" for _, asked in admitted]


def asked(to: str, cluster: str | None = None, partition: int | None = None, **fields: Any) -> Request:
    source = f"delay-requests-0-{next(_ids)}"
    made = Request("schedule", source, source, NOW, "delay-requests", NOW + 1, to, cluster=cluster, partition=partition)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def holding(*names: str, sender: str = "") -> Any:
    """Return counts of destinations as a store or a report has them."""
    counts = dict.fromkeys(names, 1)
    return SimpleNamespace(
        counts=SimpleNamespace(destinations=counts),
        shares=SimpleNamespace(destinations={sender: counts}) if sender else None,
        progress=SimpleNamespace(pending=counts, destinations=len(counts), held_by={sender: len(counts)}),
    )


def test_all_topics_of_an_installation_are_known_by_their_names() -> None:
    topics = Settings.from_env({"DELAY_APP_ID": "shop"}).topics.internal_topics | {"shop-receipts"}
    assert {topic for topic in topics if not topic.endswith(SUFFIXES)} == set()
    assert {suffix for suffix in SUFFIXES if not any(topic.endswith(suffix) for topic in topics)} == set()


@pytest.mark.parametrize("cluster", [None, "other"])
@pytest.mark.parametrize("suffix", SUFFIXES)
async def test_another_installations_topics_match_no_pattern(cluster: str | None, suffix: str) -> None:
    site = Site()
    for there in (site.own, site.other):
        there.topics |= {"shop-delays-changelog": 1, f"shop{suffix}": 1, f"order{suffix}": 1}

    assert await site.judged(asked(f"shop{suffix}", cluster)) == ["not-allowed"]
    expected = "not-allowed" if suffix == "-delays-changelog" else ""  # else it is a user's own
    assert await site.judged(asked(f"order{suffix}", cluster)) == [expected]


async def test_a_setting_may_name_one_on_purpose() -> None:
    site = Site(DELAY_DESTINATIONS="*,shop-requests")
    site.own.topics |= {"shop-delays-changelog": 1, "shop-requests": 1, "shop-events": 1}

    assert await site.judged(asked("shop-requests"), asked("shop-events")) == ["", "not-allowed"]


async def test_our_own_topics_are_never_allowed_whatever_the_cluster_is_called() -> None:
    site = Site(DELAY_DESTINATIONS="*,delay-requests,extra", DELAY_INPUTS="extra=native")
    for cluster in (site.own, site.other):
        cluster.topics |= {"delay-requests": 1, "extra": 1}

    assert await site.judged(asked("delay-requests", "alias"), asked("extra", "alias")) == ["not-allowed"] * 2
    assert await site.judged(asked("delay-requests", "other"), asked("extra", "other")) == ["", ""]


async def test_an_installation_that_comes_or_goes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.engine.ingest.destination_topics._NEIGHBOURS_S", 0.0)
    site = Site()
    site.own.topics |= {"shop-events": 1}
    for there in (False, True, False):
        site.own.topics.pop("shop-delays-changelog", None)
        site.own.topics |= {"shop-delays-changelog": 1} if there else {}
        assert await site.judged(asked("shop-events")) == ["not-allowed" if there else ""]


async def test_topics_of_another_cluster_must_be_there() -> None:
    site = Site()

    found = await site.judged(
        asked("orders", "other"), asked("orders", "other", 1), asked("orders", "other", 2), asked("typo", "other")
    )
    assert found == ["", "", "unknown-topic", "unknown-topic"]
    with pytest.raises(Refusal, match="topic 'typo' on cluster other does not exist"):
        site.policy._admit(asked("typo", "other"))
    site.other.topics["orders"] = 3
    assert await site.judged(asked("orders", "other", 2)) == [""]


@pytest.mark.parametrize("how", ["refuses", "hangs"])
async def test_an_unavailable_cluster_refuses_no_valid_request_and_delays_few(how: str) -> None:
    site, loop = Site(), asyncio.get_running_loop()
    site.other.topics["order-events"] = 1
    if how == "hangs":
        site.other.slow_s = 60.0
    else:
        site.other.away = ConnectionError()
    began = loop.time()
    for _ in range(50):
        assert await site.judged(asked("typo", "other"), asked("orders", "other")) == ["", ""]
    assert loop.time() - began < 5.0

    # What may be another installation's is not sent there untold.
    assert await site.judged(asked("order-events", "other")) == ["not-allowed"]


async def test_a_known_destination_needs_no_lookup() -> None:
    site = Site()
    await site.judged(asked("orders"))
    for _ in range(3):
        assert await site.judged(asked("orders"), asked("payments")) == ["", ""]
    assert site.own.asked == 0


async def test_one_destination_too_many_is_refused_and_a_known_one_never() -> None:
    site = Site(limit=3)
    site.own.topics |= dict.fromkeys(("a", "b", "c", "d"), 1)
    site.stores[0] = holding("", "a")  # '' are failure callbacks

    found = await site.judged(asked("b"), asked("c"), asked("d"), asked("a"), asked("b"), asked("nowhere"))
    assert found == ["", "", "too-many-destinations", "", "", ""]  # missing destinations are refused elsewhere
    site.now += 2
    site.stores[1] = holding("c")
    assert await site.judged(asked("d"), asked("b")) == ["", "too-many-destinations"]


async def test_what_other_workers_report_counts_too() -> None:
    site = Site(limit=5)
    site.reports[7] = holding("a", "b", "c")
    site.reports[7].progress.destinations = 5

    assert await site.judged(asked("orders")) == ["too-many-destinations"]
    site.now, site.reports[7] = 2.0, holding("orders")
    assert await site.judged(asked("orders"), asked("payments")) == ["", ""]


_BILLING, _SHOP = "delays-of-billing", "delays-of-shop"
_INPUTS = {"DELAY_INPUTS": f"{_BILLING}=native,{_SHOP}=native"}
_TEAMS = {**_INPUTS, "DELAY_NAMESPACES": f"{_BILLING}=billing,{_SHOP}=shop"}


def of(team: str, to: str) -> Request:
    """Return a request of a team, on its own input."""
    made = asked(to)
    made.input, made.id = f"delays-of-{team}", f"{team}/{next(_ids)}"
    return made


@pytest.mark.parametrize("env", [_INPUTS, _TEAMS], ids=["inputs", "namespaces"])
async def test_one_sender_leaves_destinations_for_others(env: dict[str, str]) -> None:
    site = Site(limit=100, **env)
    site.own.topics |= dict.fromkeys((f"t{number}" for number in range(300)), 1)

    billing = await site.judged(*(of("billing", f"t{number}") for number in range(100)))
    assert billing == [""] * 50 + ["too-many-destinations"] * 50
    shop = await site.judged(*(of("shop", f"t{number}") for number in range(100, 200)))
    assert shop == [""] * 25 + ["too-many-destinations"] * 75
    assert await site.judged(asked("t299"), of("billing", "t0"), of("shop", "t49")) == [""] * 3


@pytest.mark.parametrize("env", [_INPUTS, _TEAMS], ids=["inputs", "namespaces"])
async def test_a_share_is_what_stores_and_reports_have_of_a_sender(env: dict[str, str]) -> None:
    site, sender = Site(limit=10, **env), "billing" if "DELAY_NAMESPACES" in env else _BILLING
    site.own.topics |= dict.fromkeys("abcdefgh", 1)
    site.stores[0] = holding("a", "b", "c", "d", "e", sender=sender)
    assert await site.judged(of("billing", "f"), of("shop", "g")) == ["too-many-destinations", ""]

    site.now, site.stores[0], site.reports[7] = 2.0, holding("a", sender="shop"), holding(*"abcde", sender=sender)
    assert await site.judged(of("billing", "f"), of("shop", "g")) == ["too-many-destinations", ""]
    site.now, site.reports[7] = 4.0, holding("a", sender=sender)
    assert await site.judged(of("billing", "f")) == [""]


async def test_the_refusal_names_the_namespace_and_its_share() -> None:
    site = Site(limit=2, **_TEAMS)
    site.own.topics |= dict.fromkeys("abc", 1)
    assert await site.judged(of("billing", "a")) == [""]
    with pytest.raises(
        Refusal, match="the namespace billing has pending messages for 1 destinations, which is its share of the "
    ):
        site.policy._admit(of("billing", "b"))


async def test_a_promoted_message_was_counted_before_but_must_be_allowed() -> None:
    site = Site(limit=1)
    site.own.topics |= {"shop-delays-changelog": 1, "shop-events": 1}
    site.stores[0] = holding("a")
    parked = [asked(to, parked=Parked(NOW, NOW, "x-0-0")) for to in ("orders", "shop-events")]
    await site.policy.admitted([(RECORD, one) for one in parked], forwarded=True)

    site.policy.check(parked[0], NOW)
    with pytest.raises(Refusal, match="is an internal topic of the installation with shop-delays-changelog"):
        site.policy.check(parked[1], NOW)


async def test_urls_are_counted_by_origin_and_no_cluster_is_asked_about_them() -> None:
    site = Site(limit=2, DELAY_HTTP_DESTINATIONS="*")
    first = [asked(f"https://a.example/{number}-events") for number in range(3)]
    second, third = asked("https://b.example/"), asked("https://c.example/?secret")

    assert await site.judged(*first, second, third) == ["", "", "", "", "too-many-destinations"]
    site.stores[0] = holding("https://c.example")
    site.now += 1
    assert await site.judged(asked("https://c.example/x")) == [""]
    assert site.policy.is_known(None, "https://c.example/y")
    assert not site.own.asked


async def test_what_would_be_one_too_many_is_named_by_its_origin() -> None:
    site = Site(limit=0, DELAY_HTTP_DESTINATIONS="*")
    request = asked("https://c.example/?secret")
    site.policy.check(request, NOW)
    [(_, refused)] = await site.policy.admitted([(RECORD, request)], forwarded=False)

    assert isinstance(refused, Refusal)
    assert "'https://c.example' cannot be added" in refused.sentence
