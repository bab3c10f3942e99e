"""Namespaces: records of one team's input never reach another team's messages, whatever they contain."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from punctual.contract import headers as names
from punctual.contract import request
from punctual.contract.home import home_partition
from punctual.contract.namespaces import parse_namespaces
from tables import Entry
from tests.app.workbench import Workbench, source
from tests.punctual.contract.foreign import ETF1, KARAFKA
from tests.punctual.contract.records import NOW, FakeRecord, Log

INPUTS = {
    "DELAY_INPUTS": "orders-delays=native,billing-delays=native,schedules=etf1,jobs=karafka",
    "DELAY_NAMESPACES": "orders-delays=orders,billing-delays=billing,schedules=billing,jobs=billing",
}
DUE = NOW + 60_000
#: Ids by which the other team may try to name the message of `orders` with the id `x`, and the one without an id.
NAMED = ["x", "orders/x", "billing/../orders/x", "billing/orders/x", "/orders/x", "orders/x ", "orders%2Fx"]
AUTOMATIC = ["orders-delays-0-1", "orders/orders-delays-0-1", "orders-delays-0-01"]


class Teams(Workbench):
    """A partition of two teams, and of an operator."""

    def __init__(self, path: Path, **env: str) -> None:
        super().__init__(path, 0, DELAY_PARTITIONS="1", **INPUTS, **env)
        self.orders, self.billing = Log("orders-delays"), Log("billing-delays")

    def by(self, log: Log, /, **said: str | bytes | None) -> FakeRecord:
        """Have a team ask for something."""
        record = log.record(self.now_ms, **said)
        self.run(record)
        return record

    def of_orders(self) -> dict[str, Entry]:
        """Return what `orders` has waiting, by row."""
        ours = ("orders/", "orders-delays-")
        return {row.hex(): entry for row, entry in self.store.rows() if entry.id.startswith(ours)}


@pytest.fixture
def teams(tmp_path: Path) -> Iterator[Teams]:
    """Two messages of `orders` wait: one with the id `x`, and one without."""
    teams = Teams(tmp_path / "teams.db")
    teams.by(teams.orders, delay_id="x", delay_to="orders", delay_at=str(DUE))
    teams.by(teams.orders, delay_to="orders", delay_at=str(DUE))
    yield teams
    teams.assert_balanced()
    teams.close()


def test_an_id_of_a_teams_input_has_its_full_name_everywhere(teams: Teams) -> None:
    assert teams.pending() == {"orders/x": DUE, "orders-delays-0-1": DUE}
    assert [event["id"] for event in teams.events] == ["orders/x", "orders-delays-0-1"]
    row = teams.claim("orders/x")
    assert (
        dict(teams.settings.topics.dialect("orders-delays").delivery(teams.claims[row], DUE))[names.ID] == b"orders/x"
    )


@pytest.mark.parametrize("id_", ["x", "orders/x"])
@pytest.mark.parametrize("op", ["cancel", "reschedule", "deliver-now"])
def test_a_team_commands_its_own_by_either_name(teams: Teams, id_: str, op: str) -> None:
    teams.by(teams.orders, delay_op=op, delay_id=id_, delay_at=str(DUE + 1))

    assert teams.events[-1]["id"] == "orders/x"
    assert teams.pending().get("orders/x") == {"cancel": None, "reschedule": DUE + 1, "deliver-now": NOW}[op]


def test_operators_name_ids_in_full(teams: Teams) -> None:
    teams.now_ms += 1
    teams.command("cancel", "orders/x")
    teams.command("cancel", "orders-delays-0-1")

    assert teams.pending() == {}


@pytest.mark.parametrize("id_", NAMED + AUTOMATIC)
@pytest.mark.parametrize("op", ["cancel", "reschedule", "deliver-now", "pause", "resume"])
def test_no_command_reaches_another_teams_message(teams: Teams, id_: str, op: str) -> None:
    before = teams.of_orders()
    teams.by(teams.billing, delay_op=op, delay_id=id_, delay_at=str(DUE + 1))

    assert teams.of_orders() == before
    assert teams.events[-1]["event"] == "unknown"
    assert teams.events[-1]["id"].startswith("billing/")


@pytest.mark.parametrize("id_", NAMED + AUTOMATIC)
def test_no_request_replaces_another_teams_message(teams: Teams, id_: str) -> None:
    before = teams.of_orders()
    teams.by(teams.billing, delay_id=id_, delay_to="orders", delay_at=str(NOW))

    assert teams.of_orders() == before
    assert teams.events[-1]["event"] == "accepted"


@pytest.mark.parametrize("id_", NAMED)
def test_no_command_waits_for_another_teams_message(teams: Teams, id_: str) -> None:
    teams.now_ms += 1_000
    teams.by(teams.billing, delay_op="cancel", delay_id=id_.replace("x", "later"))
    teams.now_ms -= 500
    late = teams.by(teams.orders, delay_id="later", delay_to="orders", delay_at=str(DUE))

    assert teams.pending()["orders/later"] == DUE, late


@pytest.mark.parametrize("id_", NAMED)
def test_no_delivery_makes_another_teams_message_a_duplicate(teams: Teams, id_: str) -> None:
    id_ = id_.replace("x", "once")
    teams.by(teams.billing, delay_id=id_, delay_to="orders", delay_at=str(DUE), delay_dedupe="PT1H")
    [own] = [entry.id for _, entry in teams.store.rows() if entry.id.startswith("billing/")]
    teams.run(teams.delivered(teams.claim(own)))
    teams.by(teams.orders, delay_id="once", delay_to="orders", delay_at=str(DUE), delay_dedupe="PT1H")

    assert teams.events[-1]["event"] == "accepted"
    assert teams.pending()["orders/once"] == DUE


@pytest.mark.parametrize("id_", NAMED)
def test_no_bound_is_put_on_another_teams_message(teams: Teams, id_: str) -> None:
    teams.by(teams.orders, delay_id="y", delay_to="orders", delay_at=str(DUE), delay_no_later="PT10M")
    teams.now_ms += 1
    teams.by(teams.billing, delay_id=id_.replace("x", "y"), delay_to="orders", delay_at=str(DUE), delay_no_later="1")
    teams.by(teams.orders, delay_id="y", delay_to="orders", delay_at=str(DUE + 5))

    assert teams.pending()["orders/y"] == DUE + 5


@pytest.mark.parametrize("op", ["pause", "cancel"])
def test_no_series_of_another_team_is_paused_or_ended(teams: Teams, op: str) -> None:
    teams.by(teams.orders, delay_id="daily", delay_to="orders", delay_every="P1D")
    before = teams.of_orders()
    for id_ in ("daily", "orders/daily", f"orders/daily@{NOW + 86_400_000}"):
        teams.by(teams.billing, delay_op=op, delay_id=id_)

    assert teams.of_orders() == before


@pytest.mark.parametrize("id_", ["orders/x", "x"])
def test_what_looks_like_the_cold_tiers_is_refused_on_a_teams_input(tmp_path: Path, id_: str) -> None:
    teams = Teams(tmp_path / "teams.db", DELAY_HORIZON="P1D", DELAY_DEDUPE_WINDOW="PT10M")
    parked = source(teams.by(teams.orders, delay_id="x", delay_to="orders", delay_at=str(NOW + 5 * 86_400_000)))
    told = len(teams.cold())
    said = {"delay_parked": f"{NOW},{NOW}", "delay_source": parked, "delay_first": "1"}
    for log in (teams.billing, teams.orders):
        teams.by(log, delay_id=id_, delay_to="orders", delay_at=str(DUE), **said)
        assert (teams.events[-1]["event"], teams.events[-1]["reason"]) == ("refused", "malformed")

    assert (teams.pending(), teams.cold(told)) == ({}, [])
    teams.ask(delay_id="orders/x", delay_to="orders", delay_at=str(DUE), **said)  # as the tier does
    assert teams.pending() == {"orders/x": DUE}
    teams.close()


def test_no_retry_takes_the_id_of_another_teams(teams: Teams) -> None:
    retried = {"delay_to": "orders", "delay_retry": "exponential 1s 2 1h", "delay_source": "orders-delays-0-0"}
    teams.by(teams.orders, **retried)
    before = teams.of_orders()
    teams.by(teams.billing, **retried)

    assert teams.of_orders() == before
    assert "billing/orders-delays-0-0~2~orders" in teams.pending()


@pytest.mark.parametrize("id_", [b"x", b"orders/x", b"orders-delays-0-1"])
def test_keys_that_are_ids_belong_to_the_namespace_too(teams: Teams, id_: bytes) -> None:
    before = teams.of_orders()
    for offset, value in enumerate((ETF1.value, None)):
        teams.run(replace(ETF1, partition=0, offset=offset, timestamp=NOW, key=id_, value=value))
    teams.run(replace(KARAFKA, topic="jobs", partition=0, offset=0, timestamp=NOW, key=id_))

    assert teams.of_orders() == before
    assert {event["id"] for event in teams.events if event["source"].startswith(("schedules", "jobs"))} == {
        f"billing/{id_.decode()}"
    }


def test_deliveries_and_dead_letters_can_be_sent_back_as_they_are(teams: Teams) -> None:
    refused = teams.by(teams.orders, delay_id="y", delay_to="gone!", delay_at=str(DUE), user="1")
    letter = teams.sends[-1]

    assert dict(letter.headers)[names.ID] == b"orders/y"
    assert (letter.key, letter.value) == (refused.key, refused.value)
    there = [(name, b"orders" if name == names.TO else value) for name, value in letter.headers]
    teams.run(replace(teams.orders.record(NOW), headers=there))
    assert teams.pending()["orders/y"] == DUE


@pytest.mark.parametrize("id_", [b"orders/x", b"orders/\xff", b"orders/" + b"x" * 300, b"", None])
def test_no_dead_letter_bears_the_name_of_another_namespace(teams: Teams, id_: bytes | None) -> None:
    teams.by(teams.billing, delay_id=id_, delay_to="gone!", delay_at=str(DUE))

    assert not (dict(teams.sends[-1].headers)[names.ID] or b"billing/").startswith(b"orders/")


def test_a_full_name_that_is_too_long_is_refused(teams: Teams) -> None:
    teams.by(teams.orders, delay_id="x" * 250, delay_to="orders", delay_at=str(DUE))

    assert (teams.events[-1]["event"], teams.events[-1]["reason"]) == ("refused", "bad-id")
    assert b"delay-id has 257 bytes with its namespace (orders/)" in (dict(teams.sends[-1].headers)[names.ERROR] or b"")


def test_an_id_lives_where_its_full_name_does(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "bench.db", 0, DELAY_PARTITIONS="4", **INPUTS)
    log = Log("orders-delays")
    found = dict[str, int]()
    for number in range(20):
        record = log.record(NOW, delay_id=f"x{number}", delay_to="orders", delay_at=str(DUE))
        bench.run(record)
        found[f"orders/x{number}"] = 0
    found |= {request.decode(out.value or b"").id: out.partition or 0 for out in bench.sends}

    assert found == {id_: home_partition(id_, bench.settings.topics.inputs, 4) for id_ in found}
    assert len(set(found.values())) == 4
    bench.close()


def test_a_forward_keeps_its_full_name(teams: Teams) -> None:
    namespaces = parse_namespaces(INPUTS["DELAY_NAMESPACES"])
    asked = teams.settings.topics.dialect("billing-delays").decode(
        Log("billing-delays", 2).record(NOW, delay_id="z", delay_to="orders", delay_at=str(DUE))
    )
    teams.run(replace(teams.forwards.record(NOW), headers=[], key=b"billing/z", value=request.encode(asked)))

    assert "billing/z" in teams.pending()
    assert namespaces.of_id("billing/z") == "billing"
