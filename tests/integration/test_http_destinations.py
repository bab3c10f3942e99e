"""Messages for URLs on a real Kafka: signed, retried, ended, and all accounted for."""

import email.utils
import itertools
import json
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from standardwebhooks import Webhook

from app.engine.steps.outcome_handler import HTTP_GIVE_UP_MS
from tests.harness.kafka import now_ms, read
from tests.harness.pace import usual_ms
from tests.harness.receiver import Answer, Receiver
from tests.harness.waiting import LIMIT_S, ask_until, eventually
from tests.integration.conftest import Run
from tests.integration.installation import Installation

Said = dict[str, str]
SECRET, OLD_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"


def answer(path: str, before: int) -> Answer:
    """Answer as the path says: /<name>/<statuses, one for each try>; the last status again and again."""
    statuses = path.split("?", maxsplit=1)[0].split("/")[2].split(",")
    status = statuses[min(before, len(statuses) - 1)]
    if status == "slow":
        return (204, {}, 20.0)
    if status == "dated":
        return (503, {"Retry-After": email.utils.formatdate(time.time() + 3, usegmt=True)}, 0.0)
    if status.startswith("wait"):
        return (500, {"Retry-After": status.removeprefix("wait")}, 0.0)
    if status == "moved":
        return (302, {"Location": "/elsewhere/204"}, 0.0)
    return (int(status), {}, 0.0)


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver(answer) as made:
        yield made


@pytest.fixture(scope="module", params=["at_least_once", pytest.param("exactly_once", marks=pytest.mark.core)])
def installation(
    run: Run, receiver: Receiver, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    secrets = tmp_path_factory.mktemp("secrets") / "secrets"
    secrets.write_text(f"{receiver.origin}/* {SECRET} {OLD_SECRET}\n", "utf-8")
    env = {
        "DELAY_HTTP_DESTINATIONS": "http://127.0.0.1:*",
        "DELAY_HTTP_HEADERS": "x-*",
        "DELAY_HTTP_SECRETS_FILE": str(secrets),
        "DELAY_GUARANTEE": request.param,
    }

    def inputs(app_id: str) -> dict[str, str]:
        callbacks = f"http://127.0.0.1:*,{app_id}-airtel:http://127.0.0.2:*"
        return {"DELAY_INPUTS": f"{app_id}-airtel=airtel", "DELAY_CALLBACKS": callbacks}

    with run("http", env=lambda app_id: {**env, **inputs(app_id)}) as made:
        yield made


def ask(
    installation: Installation,
    id_: str,
    url: str,
    value: bytes = b"{}",
    *,
    after_ms: int = 300,
    said: Said | None = None,
) -> int:
    """Ask for a message for a URL; return when it is due."""
    due = now_ms() + after_ms
    headers = {"delay-to": url, "delay-id": id_, "delay-at": str(due), **(said or {})}
    installation.requests.send(headers, b"key", value)
    installation.requests.flush()
    return due


def url_of(receiver: Receiver, installation: Installation, statuses: str) -> str:
    return f"{receiver.origin}/{installation.app_id}-{installation.new_id()}/{statuses}"


def path_of(receiver: Receiver, url: str) -> str:
    return url.removeprefix(receiver.origin)


def test_a_message_is_posted_when_it_is_due_and_signed(installation: Installation, receiver: Receiver) -> None:
    url = url_of(receiver, installation, "204") + "?token=secret"
    id_ = f"{installation.new_id()} \u00e9\r\nx"
    body = json.dumps({"type": "reminder", "data": "\u00e9"}).encode()
    said = {"Content-Type": "application/json", "x-tenant": "7", "private": "no"}
    due = ask(installation, id_, url, value=body, said=said)
    event = installation.await_event("delivered", id_)[id_]

    [posted] = receiver.of(path_of(receiver, url))
    assert (posted.body, posted.headers["content-type"], posted.headers["x-tenant"]) == (body, "application/json", "7")
    assert "private" not in posted.headers
    assert posted.headers["delay-id"] == id_.replace(" ", "%20").replace("\u00e9", "%C3%A9").replace("\r\n", "%0D%0A")
    assert (posted.headers["delay-due"], posted.headers["delay-attempt"]) == (str(due), "1")
    assert posted.headers["delay-source"] == event["source"]
    assert 0 <= posted.late_ms < 1_500
    for secret in (SECRET, OLD_SECRET):
        assert Webhook(secret).verify(posted.body, posted.headers) == json.loads(body)
    assert event["to"] == receiver.origin
    assert "delivered" not in event
    assert 0 <= usual_ms(due, due + event["late"]) < 1_500


def test_the_signature_covers_whether_it_is_a_delivery_or_a_failure_callback(
    installation: Installation, receiver: Receiver
) -> None:
    url, chosen = url_of(receiver, installation, "204"), b'{"type": "refund"}'
    ask(installation, installation.new_id(), url, chosen)
    forged = {"delay-to": url, "delay-on-failure": url, "delay-id": installation.new_id()}
    installation.requests.send({**forged, "delay-at": "soon"}, b"key", chosen)
    airtel = {"topic": "nowhere", "value": "refund", "postTime": now_ms(), "failurePostCallbackUrl": url}
    installation.requests.send([], b"key", json.dumps(airtel).encode(), topic=f"{installation.app_id}-airtel")
    installation.requests.flush()

    eventually(lambda: len(receiver.of(path_of(receiver, url))) == 3, what="the delivery and the callbacks")
    for post in receiver.of(path_of(receiver, url)):
        Webhook(SECRET).verify(post.body, post.headers)
        begins = "msg_" if "delay-due" in post.headers else "callback_"
        assert post.headers["webhook-id"].startswith(begins)
    elsewhere = {**forged, "delay-after": "1", "delay-on-failure": url.replace("127.0.0.1", "127.0.0.2")}
    installation.requests.send(elsewhere, b"of another input", b"")
    installation.requests.flush()
    [letter] = installation.dead_letters(b"of another input").values()
    assert letter.header("delay-reason") == "not-allowed"
    assert "DELAY_CALLBACKS does not allow" in letter.header("delay-error")


def test_a_failed_post_is_retried_and_each_attempt_has_an_event(installation: Installation, receiver: Receiver) -> None:
    url, id_ = url_of(receiver, installation, "500,moved,404,200"), installation.new_id()
    ask(installation, id_, url)
    installation.await_event("delivered", id_)

    posts = receiver.of(path_of(receiver, url))
    assert [post.headers["delay-attempt"] for post in posts] == ["1", "2", "3", "4"]
    assert len({post.headers["webhook-id"] for post in posts}) == 1
    waits = [(before.at_ms, after.at_ms) for before, after in itertools.pairwise(posts)]
    for number, (before_ms, after_ms) in enumerate(waits):
        assert after_ms - before_ms >= 740 * 2**number, waits
        assert usual_ms(before_ms, after_ms) <= 1_250 * 2**number + 1_500, waits
    told = [(event["event"], event.get("attempts"), event.get("reason")) for event in installation.events(id_)]
    assert told == [
        ("accepted", None, None),
        ("attempted", 1, "HTTP 500"),
        ("attempted", 2, "HTTP 302"),
        ("attempted", 3, "HTTP 404"),
        ("delivered", None, None),
    ]
    assert not any(post.path.startswith("/elsewhere") for post in receiver.posted)


@pytest.mark.parametrize("status", ["wait3", "dated"])
def test_a_host_is_left_alone_as_long_as_it_asks(installation: Installation, receiver: Receiver, status: str) -> None:
    url, id_ = url_of(receiver, installation, f"{status},200"), installation.new_id()
    ask(installation, id_, url)
    installation.await_event("delivered", id_)

    first, second = receiver.of(path_of(receiver, url))
    assert second.at_ms - first.at_ms > 1_900
    assert usual_ms(first.at_ms, second.at_ms) < 6_000


def test_410_ends_it_with_a_dead_letter_that_can_be_sent_again(installation: Installation, receiver: Receiver) -> None:
    url, id_ = url_of(receiver, installation, "410") + "?token=secret", installation.new_id()
    ask(installation, id_, url, value=b"gone")
    installation.await_event("rejected", id_)

    [letter] = installation.letters_for(1, url)
    assert (letter.header("delay-reason"), letter.value, letter.header("delay-to")) == ("undeliverable", b"gone", url)
    assert "accepts no more messages at this URL (HTTP 410, after 1 attempt)" in letter.header("delay-error")
    assert "secret" not in letter.header("delay-error")
    assert [event["event"] for event in installation.events(id_)] == ["accepted", "attempted", "rejected"]


def test_a_command_between_tries_applies(installation: Installation, receiver: Receiver) -> None:
    cancelled, moved = installation.new_id(), installation.new_id()
    urls = [url_of(receiver, installation, "wait3600"), url_of(receiver, installation, "wait3600,200")]
    for id_, url in zip((cancelled, moved), urls, strict=True):
        ask(installation, id_, url)
    installation.await_event("attempted", cancelled, moved)
    installation.requests.send({"delay-op": "cancel", "delay-id": cancelled}, None, b"")
    installation.requests.send({"delay-op": "deliver-now", "delay-id": moved}, None, b"")
    installation.requests.flush()
    installation.await_event("cancelled", cancelled)
    installation.await_event("delivered", moved)

    assert [len(receiver.of(path_of(receiver, url))) for url in urls] == [1, 2]
    assert receiver.of(path_of(receiver, urls[1]))[1].headers["delay-attempt"] == "1"  # tries belong to a due time


def test_a_forbidden_url_is_refused(installation: Installation, receiver: Receiver) -> None:
    url = url_of(receiver, installation, "204")
    wrong = {
        "elsewhere": ({"delay-to": "https://example.com/"}, "not-allowed"),
        "cluster": ({"delay-to": url, "delay-to-cluster": "emea"}, "malformed"),
        "partition": ({"delay-to": url, "delay-to-partition": "0"}, "malformed"),
        "shape": ({"delay-to": f"{url}\\x"}, "malformed"),
    }
    for key, (said, _) in wrong.items():
        installation.requests.send({**said, "delay-after": "0"}, key.encode(), b"")
    installation.requests.flush()
    letters = installation.dead_letters(*(key.encode() for key in wrong))

    assert {key: letters[key.encode()].header("delay-reason") for key in wrong} == {
        key: reason for key, (_, reason) in wrong.items()
    }
    assert not receiver.of(path_of(receiver, url))


@contextmanager
def endless(piece: bytes) -> Iterator[str]:
    """A host that answers every request with the same piece for ever; its origin."""
    listening, over = socket.create_server(("127.0.0.1", 0)), threading.Event()

    def talk(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(65_536)
            while not over.is_set():
                connection.sendall(piece)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=talk, args=(listening.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        over.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def test_a_receiver_that_never_ends_its_answer_delays_no_other(installation: Installation, receiver: Receiver) -> None:
    with endless(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 2_000) as origin:
        bad, good = [installation.new_id() for _ in range(4)], [installation.new_id() for _ in range(20)]
        for id_ in bad:
            ask(installation, id_, f"{origin}/{id_}")
        for place, id_ in enumerate(good):
            ask(installation, id_, url_of(receiver, installation, "204"), after_ms=300 + 50 * place)
        delivered = installation.await_event("delivered", *good).values()
        late = [usual_ms(event["due"], event["due"] + event["late"]) for event in delivered]
        why = installation.await_event("attempted", *bad)
        for id_ in bad:
            installation.requests.send({"delay-op": "cancel", "delay-id": id_}, None, b"")
        installation.requests.flush()
        installation.await_event("cancelled", *bad)

    assert {event["reason"] for event in why.values()} == {"too many interim responses"}
    assert max(late) < 1_500


def test_tries_survive_kill_9(installation: Installation, receiver: Receiver) -> None:
    """Between tries, and while one is under way."""
    waits, slow = installation.new_id(), installation.new_id()
    url, other = url_of(receiver, installation, "500,500,wait8,200"), url_of(receiver, installation, "slow,200")
    ask(installation, waits, url)
    eventually(lambda: len(receiver.of(path_of(receiver, url))) == 3, what="the third try")
    ask(installation, slow, other)
    eventually(lambda: receiver.of(path_of(receiver, other)), what="the slow try")
    eventually(lambda: len([e for e in installation.events(waits) if e["event"] == "attempted"]) == 3)
    installation.worker.kill()
    installation.worker.start().wait_ready()
    installation.await_event("delivered", waits, slow, seconds=40)

    posts = receiver.of(path_of(receiver, url))
    assert [post.headers["delay-attempt"] for post in posts] == ["1", "2", "3", "4"]
    assert posts[3].at_ms - posts[2].at_ms >= 7_900
    again = receiver.of(path_of(receiver, other))
    assert {post.headers["delay-attempt"] for post in again} == {"1"}
    assert len({post.headers["webhook-id"] for post in again}) == 1


def test_the_account_names_origins_alone(installation: Installation, receiver: Receiver) -> None:
    ids = [installation.new_id() for _ in range(20)]
    for id_ in ids:
        ask(installation, id_, url_of(receiver, installation, "204") + "?token=secret", after_ms=3_600_000)

    def pending() -> int:
        said = installation.progress().values()
        return sum(progress["pending"].get(receiver.origin, 0) for progress in said)

    def metric() -> float:
        return installation.worker.metric("delay_pending_messages", destination=receiver.origin)

    eventually(lambda: pending() == 20, what="20 pending messages")
    eventually(lambda: metric() == 20, what="the metric")
    for suffix in ("events", "progress"):
        told = b"".join(
            record.value or b"" for record in read(installation.bootstrap, f"{installation.app_id}-{suffix}")
        )
        assert b"secret" not in told
        assert receiver.origin.encode() in told
    assert "secret" not in installation.worker.log


def test_the_page_shows_which_host_fails_and_why(installation: Installation) -> None:
    ids = [installation.new_id() for _ in range(20)]
    for id_ in ids:
        ask(installation, id_, "http://127.0.0.1:9/x")

    def said() -> dict[str, Any]:
        try:
            with urllib.request.urlopen(f"{installation.worker.url}/api/v1/destinations", timeout=LIMIT_S) as answer:  # noqa: S310 - our own port
                listed = json.load(answer)["destinations"]
        except OSError:  # it has just started
            return {}
        return next((one for one in listed if one["destination"] == "http://127.0.0.1:9"), {})

    held = ask_until(said, lambda one: one.get("held_because") == "no connection", "the reason")
    assert held["held_since_ms"]
    for id_ in ids:
        installation.requests.send({"delay-op": "cancel", "delay-id": id_}, None, b"")
    installation.requests.flush()
    installation.await_event("cancelled", *ids)


def test_a_callback_is_signed_too_and_ends_with_410(installation: Installation, receiver: Receiver) -> None:
    taken, gone = url_of(receiver, installation, "503,204"), url_of(receiver, installation, "410")
    for url in (taken, gone):
        installation.requests.send({"delay-to": "nowhere", "delay-after": "0", "delay-on-failure": url}, b"k", b"v")
    installation.requests.flush()
    eventually(lambda: len(receiver.of(path_of(receiver, taken))) == 2, what="the second try")
    eventually(
        lambda: "is abandoned after 1 attempts: HTTP 410" in installation.worker.log, what="the end of the other"
    )

    for post in receiver.of(path_of(receiver, taken)):
        assert Webhook(SECRET).verify(post.body, post.headers)["reason"] == "unknown-topic"
    assert len(receiver.of(path_of(receiver, gone))) == 1


@pytest.mark.core
def test_a_message_that_is_given_up_becomes_a_dead_letter(run: Run, receiver: Receiver) -> None:
    env = {"DELAY_HTTP_DESTINATIONS": f"{receiver.origin}/*,http://127.0.0.1:9"}
    with run("given-up", env=lambda _: env) as made:
        failing, away = made.new_id(), made.new_id()
        almost_ms = 3_000 - HTTP_GIVE_UP_MS  # in three seconds, they are three days late
        due = ask(made, failing, url_of(receiver, made, "500"), after_ms=almost_ms)
        ask(made, away, "http://127.0.0.1:9/x", after_ms=almost_ms)
        letters = made.letters(2)
        told = made.await_event("rejected", failing, away)

        assert all(event["at"] - due >= HTTP_GIVE_UP_MS for event in told.values())
        assert {record.header("delay-reason") for record in letters} == {"undeliverable"}
        events = [event["event"] for event in made.events(failing)]
        assert events[0] == "accepted"
        assert events[-1] == "rejected"
        assert set(events[1:-1]) == {"attempted"}
        assert len(events) >= 4
