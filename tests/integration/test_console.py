"""The console in a real browser, on a real worker: each page is driven, and looked at by axe in both themes."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness.account import Account
from tests.harness.chromium import CHROMIUM
from tests.harness.kafka import now_ms
from tests.harness.pace import Stopwatch
from tests.harness.waiting import ask_until, crowd, eventually
from tests.integration.console_load import COUNT, USUAL, fill, patience_s
from tests.integration.test_actions import get

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.integration.conftest import Run
    from tests.integration.installation import Installation

#: Folder for a picture of each page, if set.
SAVED = os.environ.get("SCREENSHOTS", "")
MANY = COUNT > USUAL
SIZES = {"wide": (1280, 900), "narrow": (320, 720)}

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: install it, or name it by CHROMIUM"),
]


@pytest.fixture(scope="module")
def installation(run: "Run") -> Iterator["Installation"]:
    with run("console") as made:
        yield made


@pytest.fixture(scope="module")
def topics(installation: "Installation") -> list[str]:
    """Destinations for which messages wait, from minutes to months, and dead letters of an unknown one."""
    return fill(installation)


@pytest.fixture
def page(browser: "Browser", installation: "Installation", topics: list[str]) -> Iterator["Page"]:
    """A tab that fails the test if the policy blocks something, or a script fails."""
    assert topics
    with browser.new_context(
        base_url=installation.worker.url, viewport={"width": 1280, "height": 900}, color_scheme="light"
    ) as context:
        page = context.new_page()
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if "Content Security" in said.text else None)
        page.set_default_timeout(60_000)
        yield page
        assert wrong == []


def _shot(page: "Page", directory: Path, name: str) -> None:
    if SAVED:
        page.screenshot(path=directory / f"{name}.png", full_page=True)


@pytest.fixture(scope="module")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = Path(SAVED) if SAVED else tmp_path_factory.mktemp("shots")
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _pages(topics: list[str]) -> dict[str, str]:
    return {
        "home": "/",
        "destinations": "/destinations",
        "destination": f"/destinations/{topics[0]}",
        "find-empty": "/find",
        "find": f"/find?to={topics[0]}",
        "all": f"/find/all?to={topics[0]}&act=cancel",
        "message": "/messages/order-5",
        "message-unknown": "/messages/never-asked-for",
        "dead-letters": "/dead-letters?reason=unknown-topic",
        "dead-letters-all": "/dead-letters/all?reason=unknown-topic",
        "new": "/new",
        "recurring": "/recurring",
        "workers": "/workers",
        "jobs": "/jobs",
        "audit": "/audit",
    }


@pytest.mark.parametrize(
    ("theme", "size"),
    [
        pytest.param("light", "wide", marks=pytest.mark.core),
        ("light", "narrow"),
        ("dark", "wide"),
        pytest.param("dark", "narrow", marks=pytest.mark.core),
    ],
)
def test_every_page_is_accessible_and_fits(page: "Page", topics: list[str], shots: Path, theme: Any, size: str) -> None:
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 - as above

    width, height = SIZES[size]
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": width, "height": height})
    found: dict[str, object] = {}
    lost = page.request.get("/api/v1/dead-letters?id_prefix=lost-0").json()["rows"][0]
    pages = {**_pages(topics), "dead-letter": f"/dead-letters/{lost['partition']}-{lost['offset']}"}
    for name, address in pages.items():
        page.goto(address)
        if name == "home":
            page.locator(".stacks").first.wait_for()
        _shot(page, shots, f"{name}-{theme}-{size}")
        violations = Axe().run(page).response["violations"]
        if violations:
            found[name] = [(one["id"], [node["html"][:200] for node in one["nodes"]][:3]) for one in violations]
        overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if overflow:
            found[f"{name} overflows"] = overflow
    assert not found, found


@pytest.mark.core
def test_home_gives_the_verdict_and_keeps_itself_up_to_date(page: "Page", installation: "Installation") -> None:
    page.goto("/")
    assert page.locator("h1").inner_text().startswith("On time.")
    before = page.locator(".clock").inner_text()
    eventually(lambda: page.locator(".clock").inner_text() != before, what="another time")
    page.keyboard.press("p")
    assert page.locator("#connection").inner_text().startswith("Paused at")
    page.keyboard.press("p")
    eventually(lambda: not page.locator("#connection").inner_text(), what="going on")
    installation.requests.schedule("seen-live", now_ms() + 3_600_000, installation.topic())
    installation.requests.flush()
    installation.await_listed("seen-live")
    pending = get(installation, "/messages/count")[1]["matching"]
    eventually(
        lambda: page.locator(".figures dd").first.inner_text() == f"{pending:,}", what="one more that is pending"
    )


@pytest.mark.core
def test_the_timeline_zooms_to_a_second_and_to_its_messages(page: "Page") -> None:
    page.goto("/")
    page.locator(".stacks").first.wait_for()
    assert page.locator(".legend").first.locator("li").count() >= 3
    page.get_by_text("As a table").click()
    page.locator("details table a").first.click()  # a minute
    page.get_by_text("Find these messages").wait_for()
    page.locator(".stacks").first.wait_for()
    page.get_by_text("As a table").click()
    page.locator("details table a").first.click()  # a second
    page.wait_for_url("**/find?**")
    assert page.locator("tbody th a").count() >= 1


@pytest.mark.core
def test_home_does_not_wait_for_what_takes_long(page: "Page", installation: "Installation") -> None:
    page.goto("/workers")
    installation.worker.kill()
    installation.worker.start().wait_ready()  # its first timeline has to start the scans' process
    with Stopwatch() as watch:
        page.evaluate("async () => (await fetch('/')).text()")
    assert watch.seconds < 1
    page.goto("/")
    page.locator(".stacks").first.wait_for()


@pytest.mark.core
def test_a_message_is_found_by_its_id_and_by_a_filter(page: "Page", topics: list[str]) -> None:
    page.goto("/find")
    page.get_by_label("Message ID").fill("order-7")
    page.get_by_role("button", name="Open").click()
    assert page.locator("h1").inner_text() == "order-7"
    assert '"customer": "c-0"' in page.locator("pre").inner_text()
    page.get_by_role("link", name="Hex").click()
    assert "7b 22 6f 72" in page.locator("pre").inner_text()

    page.goto("/find")
    page.get_by_label("Destination").fill(topics[1])
    page.get_by_label("Header").fill("kind:reminder")
    page.get_by_role("button", name="Find").click()
    first = ask_until(page.locator("tbody th").all_inner_texts, lambda ids: len(ids) == 50, "the first page")
    page.get_by_role("link", name="Continue").click()
    second = ask_until(
        page.locator("tbody th").all_inner_texts, lambda ids: ids and not set(first) & set(ids), "the second page"
    )
    page.locator("tbody th a").first.click()
    assert page.locator("h1").inner_text() == second[0]


@pytest.mark.core
def test_without_a_script_pages_work_too(browser: "Browser", installation: "Installation", topics: list[str]) -> None:
    with browser.new_context(base_url=installation.worker.url, java_script_enabled=False) as context:
        page = context.new_page()
        page.goto("/find")
        page.get_by_label("Destination").fill(topics[0])
        page.get_by_role("button", name="Find").click()
        eventually(lambda: page.locator("tbody tr").count() == 50, what="the first page")


@pytest.mark.core
def test_the_form_of_a_message_gives_lines_that_ask_for_it(page: "Page", topics: list[str]) -> None:
    page.goto("/new")
    page.get_by_label("Destination: a topic or a URL").fill(topics[0])
    page.get_by_label("Value", exact=True).fill("it's time")
    page.get_by_role("button", name="Show as code").click()
    kcat, curl, python = page.locator("pre").all_inner_texts()
    assert f"-H delay-to={topics[0]} -H delay-after=300000" in kcat
    assert "/api/v1/messages" in curl
    assert f"client.delay('{topics[0]}', \"it's time\", after=timedelta(milliseconds=300000))" in python


@pytest.mark.core
def test_home_is_painted_within_a_second(page: "Page") -> None:
    painted, paint = [], "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    for _ in range(5):
        page.goto("/")
        page.locator("h1").wait_for()
        eventually(lambda: page.evaluate(paint) is not None)  # the browser may paint the document later
        painted.append(page.evaluate(paint))
    assert sorted(painted)[-2] < 1_000 * crowd(), painted


@pytest.mark.core
def test_home_answers_in_under_100_ms(page: "Page") -> None:
    page.goto("/")

    def took() -> list[float]:
        """Return how many milliseconds 40 answers took, sorted."""
        times: list[float] = page.evaluate(
            """async () => {
            const all = [];
            for (let i = 0; i < 40; i++) {
                const began = performance.now();
                await (await fetch("/")).text();
                all.push(performance.now() - began);
            }
            return all.sort((a, b) => a - b);
        }"""
        )
        return times

    # Nine of ten, and not each time: others use this machine too.
    ask_until(took, lambda times: times[-4] < 100 * crowd(), "answers in under 100 ms")


@pytest.mark.core
def test_a_message_is_created_rescheduled_delivered_and_cancelled(page: "Page", installation: "Installation") -> None:
    to = installation.topic()
    page.goto("/new")
    page.get_by_label("Destination: a topic or a URL").fill(to)
    page.get_by_label("ID (optional").fill("by-hand")
    page.get_by_label("Value", exact=True).fill("by hand")
    page.get_by_label("Headers, one per line").fill("kind: made here")
    page.get_by_role("button", name="Schedule the message").click()
    assert page.locator("h1").inner_text() == "by-hand"
    assert "Accepted, due " in page.locator(".flash").inner_text()
    assert page.locator("pre").inner_text() == "by hand"

    page.get_by_label("How long").fill("2")
    page.get_by_label("Unit").select_option("hours")
    page.get_by_role("button", name="Reschedule").click()
    assert "Rescheduled, due " in page.locator(".flash").inner_text()
    assert "in 1 h 59 min" in page.locator(".facts").inner_text()

    page.get_by_role("button", name="Deliver now").click()
    assert "Due now; it is being delivered" in page.locator(".flash").inner_text()
    (record,) = installation.wait_for(to, 1)
    assert (record.value, record.header("kind")) == (b"by hand", "made here")

    page.goto("/messages/order-9")
    page.get_by_role("button", name="Cancel the message").click()
    assert "Cancelled." in page.locator(".flash.good").inner_text()
    installation.await_event("cancelled", "order-9")


@pytest.mark.core
def test_an_act_that_comes_too_late_says_so(page: "Page", installation: "Installation") -> None:
    page.goto("/messages/order-12")
    installation.requests.reschedule("order-12", now_ms() + 7_200_000)
    installation.requests.flush()
    installation.await_event("rescheduled", "order-12")
    page.get_by_role("button", name="Cancel the message").click()
    assert "No change: " in page.locator(".flash.late").inner_text()
    assert page.locator("h1").inner_text() == "order-12"


@pytest.mark.core
def test_a_destination_is_paused_resumed_and_capped(page: "Page", topics: list[str]) -> None:
    page.goto("/destinations")
    page.get_by_role("link", name=topics[2]).click()
    page.get_by_label("Reason").fill("the mail server moves")
    page.get_by_role("button", name="Pause", exact=True).last.click()
    assert page.locator(".flash.good").count() == 1
    page.get_by_role("button", name="Resume").wait_for()
    assert "the mail server moves" in page.locator(".facts").inner_text()
    page.get_by_role("button", name="Resume").click()
    page.get_by_label("Messages per second").wait_for()
    page.get_by_label("Messages per second").fill("20")
    page.get_by_label("Burst (optional)").fill("100")
    page.get_by_role("button", name="Set the rate limit").click()
    eventually(lambda: "20 messages/s, burst 100" in page.locator(".facts").inner_text(), what="the rate limit")


def _wait_done(page: "Page", count: int) -> None:
    eventually(lambda: page.locator("main .badge").first.inner_text() == "done", patience_s(count), "the job")


@pytest.mark.core
def test_all_that_match_are_cancelled_by_a_job_once_their_number_is_typed(page: "Page", topics: list[str]) -> None:
    page.goto(f"/find?to={topics[1]}&header=kind:reminder")
    page.get_by_role("link", name="cancel", exact=True).click()
    label = page.get_by_text("To confirm, type the number:")
    count = int(label.inner_text().rpartition(" ")[2].replace(",", ""))
    assert count > 50
    page.get_by_label("To confirm").fill(str(count))
    page.locator("main form button").click()
    assert page.locator("h1").inner_text().startswith("Job ")
    job_id = page.url.rpartition("/")[2]
    _wait_done(page, count)
    eventually(lambda: f"cancelled\n{count:,}" in page.locator(".facts").inner_text().lower(), what="the outcomes")
    page.goto(f"/find/all?to={topics[1]}&act=cancel")
    assert "No message matches" in page.locator("main").inner_text()
    page.goto("/jobs")
    assert page.locator(f'tbody a[href$="{job_id}"]').count() == 1
    page.goto("/audit")
    assert "cancel all" in page.locator("tbody").inner_text()


@pytest.mark.core
def test_a_dead_letter_is_put_right_and_sent_again(page: "Page", installation: "Installation") -> None:
    to = installation.topic()
    page.goto("/")
    page.get_by_role("link", name="Dead letters", exact=True).click()
    page.get_by_label("ID begins with").fill("lost-1")
    page.get_by_role("button", name="Find").click()
    page.get_by_role("link", name="lost-1", exact=True).click()
    assert "no-such-topic" in page.locator(".facts").inner_text()
    page.get_by_label("Headers, one per line").fill(f"delay-to: {to}\ndelay-after: 1\ndelay-id: lost-1")
    page.get_by_role("textbox", name="Value", exact=True).fill("found")
    page.get_by_role("button", name="Send again").click()
    assert "Accepted, due " in page.locator(".flash.good").inner_text()
    (record,) = installation.wait_for(to, 1)
    assert (record.key, record.value) == (b"lost", b"found")
    page.goto("/dead-letters?sent_again=yes")
    assert page.locator("tbody th").all_inner_texts() == ["lost-1"]
    assert "sent again" in page.locator("tbody").inner_text()


@pytest.mark.core
def test_all_dead_letters_that_match_are_sent_again(page: "Page") -> None:
    page.goto("/dead-letters?reason=unknown-topic&sent_again=no")
    page.get_by_role("link", name="send again").click()
    count = page.get_by_text("To confirm, type the number:").inner_text().rpartition(" ")[2]
    page.get_by_label("To confirm").fill(count)
    page.locator("main form button").click()
    eventually(lambda: page.locator("main .badge").first.inner_text() == "done", what="the job")
    page.goto("/dead-letters?id_prefix=lost-2&sent_again=yes")
    assert page.locator("tbody th").all_inner_texts() == ["lost-2"]


@pytest.mark.core
def test_a_series_tells_its_next_runs_and_is_paused_resumed_and_run(page: "Page", installation: "Installation") -> None:
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 - as above

    to = installation.topic()
    headers = {"delay-to": to, "delay-cron": "0 8 * * *", "delay-zone": "Asia/Tokyo", "delay-id": "morning"}
    installation.requests.send(headers, None, b"up")
    installation.requests.flush()
    installation.await_event("accepted", "morning")

    def is_listed() -> bool:
        page.goto("/recurring")
        return bool(page.get_by_text("The next 5").count())

    eventually(is_listed, what="the series in the list")
    page.get_by_text("The next 5").click()
    runs = page.locator(".runs li").all_inner_texts()
    assert len(runs) == 5
    assert all("08:00:00 +09:00" in run and "23:00:00 UTC" in run for run in runs)
    assert not Axe().run(page).response["violations"]

    page.get_by_role("link", name="morning").click()
    page.get_by_role("button", name="Pause").last.click()
    assert "Paused." in page.locator(".flash.good").inner_text()
    facts = page.locator(".facts").inner_text()
    assert re.search(r"^paused (now|\d+ s ago)", facts, re.MULTILINE)
    assert "0 8 * * *, Asia/Tokyo" in facts
    assert "9999" not in page.locator("main").inner_text()
    assert not Axe().run(page).response["violations"]
    page.get_by_role("button", name="Resume").click()
    assert "Resumed, due " in page.locator(".flash.good").inner_text()
    page.get_by_role("button", name="Run now").click()
    assert "Due now; it is being delivered" in page.locator(".flash.good").inner_text()
    (record,) = installation.wait_for(to, 1)
    assert record.header("delay-id").startswith("morning@")

    def goes_on() -> bool:
        page.goto("/messages/morning")
        return "occurrence 2" in page.locator("main").inner_text()

    eventually(goes_on, what="the next occurrence")
    page.get_by_role("button", name="Cancel the recurring message").click()
    assert "Cancelled." in page.locator(".flash.good").inner_text()


@pytest.mark.core
def test_an_unknown_message_says_what_to_do_next(page: "Page") -> None:
    answer = page.goto("/messages/never-asked-for")
    assert answer is not None
    assert answer.status == 404
    assert "Find IDs that begin with" in page.locator("main").inner_text()


@pytest.mark.core
def test_a_worker_that_ends_is_shown_as_missing_and_comes_back(page: "Page", installation: "Installation") -> None:
    page.goto("/")
    installation.worker.kill()
    eventually(lambda: "does not respond" in page.locator("#connection").inner_text(), what="the warning")
    installation.worker.start().wait_ready()
    eventually(lambda: not page.locator("#connection").inner_text(), what="the end of the warning")
    eventually(lambda: "On time" in page.locator("h1").inner_text(), what="the verdict")


@pytest.mark.core
def test_everything_is_cancelled_by_its_filter_and_the_account_balances(
    page: "Page", installation: "Installation", shots: Path
) -> None:
    page.goto("/find/all?id_prefix=order-&act=cancel")
    count = int(page.get_by_text("To confirm, type the number:").inner_text().rpartition(" ")[2].replace(",", ""))
    others = get(installation, "/messages/count")[1]["matching"] - count
    assert 0 <= others < 10
    page.get_by_label("To confirm").fill(str(count))
    page.locator("main form button").click()
    _wait_done(page, count)
    _shot(page, shots, "job-done")
    job_id = page.url.rpartition("/")[2]
    standing = get(installation, f"/jobs/{job_id}")[1]
    assert standing["outcomes"] == {"cancelled": count}
    account = Account.settled(installation.bootstrap, installation.app_id, patience_s(COUNT), pending=others)
    assert account.sums["pending"] == others
    took_s = (max(part["at_ms"] for part in standing["parts"]) - standing["job"]["at_ms"]) / 1_000
    if MANY:
        said = f"{count:,} cancelled by a filter in {took_s:.1f} s, {count / took_s:,.0f} a second, none other\n"
        (shots / "figures.txt").write_text(said, "utf-8")
