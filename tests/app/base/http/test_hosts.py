"""Room at hosts: a failing host gets no more requests, and takes no room from the others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.base.http import hosts as module
from app.base.http.hosts import AILING, AT_ONCE, FIRST, KEPT, MOST, QUICK_S, Hosts


class Now:
    """A clock whose hands the test moves."""

    s = 100.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def hosts(now: Now) -> Hosts:
    return Hosts(now)


def fill(hosts: Hosts, name: str) -> int:
    count = 0
    while not hosts.full(name):
        hosts.begin(name)
        count += 1
    return count


def test_a_host_gets_more_at_once_the_longer_it_works(hosts: Hosts) -> None:
    assert fill(hosts, "a") == FIRST
    for _ in range(1_000):
        hosts.answered("a", 0.1)
        hosts.begin("a")
    while hosts._hosts["a"].under_way:
        hosts.dropped("a")
    assert fill(hosts, "a") == MOST


def test_a_host_that_fails_is_left_alone_ever_longer_and_then_gets_one_request(hosts: Hosts, now: Now) -> None:
    waits = []
    for _ in range(12):
        assert not hosts.full("a")
        hosts.begin("a")
        waits.append(hosts.failed("a", "timeout"))
        assert hosts.full("a")
        assert (hosts.fails("a"), hosts.trouble("a")) == (True, "timeout")
        now.s += waits[-1]
        assert fill(hosts, "a") == 1
        hosts.dropped("a")
    assert all(0.25 * 2**n <= wait <= 0.5 * 2**n for n, wait in enumerate(waits[:7]))
    assert all(30 <= wait <= 60 for wait in waits[7:])
    hosts.begin("a")
    hosts.answered("a", 0.1)
    assert (hosts.fails("a"), hosts.trouble("a"), hosts.full("a")) == (False, "", False)


def test_requests_that_fail_together_count_once(hosts: Hosts) -> None:
    fill(hosts, "a")
    waits = [hosts.failed("a", "timeout") for _ in range(FIRST)]
    assert len(set(waits)) == 1
    assert hosts._hosts["a"].failures == 1


def test_hosts_that_fail_leave_most_of_the_room_to_others(hosts: Hosts, now: Now) -> None:
    names = [f"dead-{number}" for number in range(1_000)]
    for name in names:
        hosts.begin(name)
        hosts.failed(name, "timeout")
    now.s += 1
    for number in range(100):
        hosts.begin(f"well-{number}")
        hosts.answered(f"well-{number}", QUICK_S)
    assert sum(fill(hosts, name) for name in names) == AILING
    assert sum(fill(hosts, f"well-{number}") for number in range(100)) == AT_ONCE - AILING


def test_hosts_that_are_slow_or_new_leave_room_to_quick_ones(hosts: Hosts) -> None:
    for name, took_s in (("quick", QUICK_S), ("slow", QUICK_S + 0.1)):
        hosts.begin(name)
        hosts.answered(name, took_s)
    taken = sum(fill(hosts, f"new-{number}") for number in range(1_000))
    assert taken == AT_ONCE - KEPT
    assert (hosts.full("slow"), fill(hosts, "quick")) == (True, FIRST + 1)
    hosts.answered("new-0", 0.1)
    assert (hosts.full("new-0"), hosts.full("slow"), hosts.full("new-999")) == (False, False, False)
    hosts.answered("quick", 14.0)
    assert hosts.full("quick")


def test_the_memory_of_hosts_is_bounded(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REMEMBERED", 100)
    for number in range(1_000):
        hosts.begin(f"dead-{number}")
        hosts.failed(f"dead-{number}", "no connection")
    for number in range(1_000):
        hosts.begin(f"well-{number}")
        hosts.answered(f"well-{number}", 0.1)
    assert len(hosts._hosts) <= 102


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["begin", "answered", "failed", "dropped"]))))
def test_the_sums_are_those_of_the_hosts(acts: list[tuple[str, str]]) -> None:
    now = Now()
    hosts = Hosts(now)
    for name, act in acts:
        now.s += 0.3
        if act == "begin":
            if not hosts.full(name):
                hosts.begin(name)
        elif name in hosts._hosts and hosts._hosts[name].under_way:
            if act == "failed":
                hosts.failed(name, "timeout")
            elif act == "answered":
                hosts.answered(name, len(hosts._hosts))
            else:
                hosts.dropped(name)
        each = hosts._hosts.values()
        assert hosts._all == sum(host.under_way for host in each)
        assert hosts._ailing == sum(host.under_way for host in each if host.failures)
        assert hosts._quick == sum(host.under_way for host in each if host.quick)


def of_sender(hosts: Hosts, sender: str, number: int, first: int = 0) -> list[str]:
    """Return the names of `number` hosts of a sender."""
    names = [f"{sender}-{one}" for one in range(first, first + number)]
    for name in names:
        hosts.belongs(name, sender)
    return names


def test_one_senders_slow_hosts_leave_room_for_others(hosts: Hosts) -> None:
    assert sum(fill(hosts, name) for name in of_sender(hosts, "a", 500)) == (AT_ONCE - KEPT) // 2
    assert sum(fill(hosts, name) for name in of_sender(hosts, "b", 500)) == (AT_ONCE - KEPT) // 4
    assert all(hosts.full(name) for name in of_sender(hosts, "a", 1, first=500))
    assert fill(hosts, *of_sender(hosts, "c", 1)) == FIRST
    assert fill(hosts, "of nobody") == FIRST


def test_one_senders_quick_hosts_leave_room_for_others(hosts: Hosts) -> None:
    for name in of_sender(hosts, "a", 500):
        hosts.begin(name)
        hosts.answered(name, 0.1)
        for _ in range(MOST):
            if name in hosts._hosts:
                hosts.begin(name)
                hosts.answered(name, 0.1)
        fill(hosts, name)
    assert hosts._all < AT_ONCE
    assert fill(hosts, *of_sender(hosts, "b", 1)) == FIRST


def test_one_senders_hosts_that_fail_leave_tries_for_others(hosts: Hosts, now: Now) -> None:
    names = {sender: of_sender(hosts, sender, 200) for sender in "ab"}
    for name in (*names["a"], *names["b"]):
        hosts.begin(name)
        hosts.failed(name, "timeout")
    now.s += 60
    assert sum(fill(hosts, name) for name in names["a"]) == AILING // 2
    assert sum(fill(hosts, name) for name in names["b"]) == AILING // 4
    for name in (*names["a"], *names["b"]):
        while hosts._hosts[name].under_way:
            hosts.dropped(name)
    assert not any((*hosts._of.values(), *hosts._slow_of.values(), *hosts._ailing_of.values()))
