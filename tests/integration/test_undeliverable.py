"""Accepted messages that cannot be delivered become dead letters; their neighbours are delivered."""

from confluent_kafka.admin import AdminClient

from tests.harness.kafka import Record, create_topic, delete_topic, now_ms, read
from tests.harness.waiting import LIMIT_S, crowd, eventually
from tests.integration.installation import ON_TIME_MS, Installation, late_ms, users


def send_again(installation: Installation, dead_letter: Record) -> None:
    """Send a dead letter as it is."""
    installation.requests.send(dead_letter.headers, dead_letter.key, dead_letter.value)
    installation.requests.flush()


def assert_right(dead_letter: Record, reason: str, sent: Record) -> None:
    """Check that a letter has its reason and a sentence, and the content of the sent record."""
    assert dead_letter.header("delay-reason") == reason
    assert dead_letter.header("delay-error").endswith(".")
    assert dead_letter.header("delay-source") == sent.source
    assert (dead_letter.key, dead_letter.value) == (sent.key, sent.value)
    asked, kept = dict(sent.headers), dict(dead_letter.headers)
    assert users(dead_letter.headers) == users(sent.headers)
    assert kept["delay-to"] == asked["delay-to"]
    assert kept["delay-id"] == asked.get("delay-id", sent.source.encode())
    assert dead_letter.header("delay-at").isdigit()


def request_of(installation: Installation, dead_letter: Record) -> Record:
    """Return the request that became a letter."""
    requests = read(installation.bootstrap, installation.requests.topic)
    return next(record for record in requests if record.source == dead_letter.header("delay-source"))


def test_a_message_too_large_for_its_destination_is_removed_from_its_batch(installation: Installation) -> None:
    to, due = installation.topic(max_message_bytes="20000"), now_ms() + 1_000
    sizes = [100] * 300 + [50_000] + [3_000] * 50 + [30_000, 40_000] + [100] * 100
    for number, size in enumerate(sizes):
        headers = {"delay-to": to, "delay-at": str(due), "user": "kept"}
        installation.requests.send(headers, b"%d" % number, b"x" * size, partition=0)
    installation.requests.flush()

    records = installation.wait_for(to, len(sizes) - 3)
    assert [int(record.key or b"") for record in records] == [n for n, size in enumerate(sizes) if size < 20_000]
    assert all(0 <= late_ms(record) <= ON_TIME_MS for record in records)
    dead_letters = installation.letters_for(3, to)
    assert [int(dead_letter.key or b"") for dead_letter in dead_letters] == [300, 351, 352]
    for dead_letter in dead_letters:
        assert_right(dead_letter, "too-large", request_of(installation, dead_letter))

    installation.alter(to, max_message_bytes="60000")
    send_again(installation, dead_letters[0])
    assert [r.value for r in installation.wait_for(to, len(sizes) - 2) if r.key == b"300"] == [b"x" * 50_000]


def test_a_topic_that_is_deleted_before_the_due_time_is_unknown(installation: Installation) -> None:
    to, other = installation.topic(2), installation.topic()
    installation.requests.send({"delay-to": to, "delay-at": "0"}, b"k", b"before")
    installation.requests.flush()
    installation.wait_for(to, 1)
    due = now_ms() + int(2_500 * crowd())
    for number in range(10):
        installation.requests.schedule(f"gone-{number}", due, to, b"%d" % number)
        installation.requests.schedule(f"stays-{number}", due, other)
    installation.requests.flush()
    installation.await_event("accepted", *(f"{name}-{number}" for name in ("gone", "stays") for number in range(10)))
    delete_topic(installation.bootstrap, to)

    assert all(late_ms(record) <= ON_TIME_MS for record in installation.wait_for(other, 10))
    dead_letters = installation.letters_for(10, to)
    for dead_letter in dead_letters:
        assert_right(dead_letter, "unknown-topic", request_of(installation, dead_letter))
    assert to not in AdminClient({"bootstrap.servers": installation.bootstrap}).list_topics(timeout=LIMIT_S).topics

    create_topic(installation.bootstrap, to, 2)
    for dead_letter in dead_letters:
        send_again(installation, dead_letter)
    records = installation.wait_for(to, 10)
    assert sorted(int(record.value or b"") for record in records) == list(range(10))
    assert {record.header("delay-due") for record in records} == {str(due)}


def test_a_message_that_is_invalid_at_its_destination_is_removed_from_its_batch(installation: Installation) -> None:
    """A compacted topic takes no record without a key."""
    to, due = installation.topic(cleanup_policy="compact"), now_ms() + 1_000
    for number in range(60):
        key = None if number % 20 == 7 else b"%d" % number
        installation.requests.send({"delay-to": to, "delay-at": str(due)}, key, b"%d" % number, partition=0)
    installation.requests.flush()

    records = installation.wait_for(to, 57)
    assert [int(record.value or b"") for record in records] == [n for n in range(60) if n % 20 != 7]
    assert all(0 <= late_ms(record) <= ON_TIME_MS for record in records)
    dead_letters = installation.letters_for(3, to)
    assert [dead_letter.value for dead_letter in dead_letters] == [b"7", b"27", b"47"]
    for dead_letter in dead_letters:
        assert_right(dead_letter, "invalid-record", request_of(installation, dead_letter))
        assert f"topic {to} is compacted, but the message has no key" in dead_letter.header("delay-error")

    installation.alter(to, cleanup_policy="delete")
    send_again(installation, dead_letters[0])
    assert installation.wait_for(to, 58)[-1].value == b"7"


def test_the_sender_decides_what_happens_to_a_message_that_is_late(installation: Installation) -> None:
    """The worker is away when they are due."""
    to, due = installation.topic(), now_ms() + int(1_500 * crowd())
    policies = {
        "delivered late": {"delay-max-late": "PT0.2S", "delay-if-late": "deliver"},
        "delivered by default": {"delay-max-late": "200"},
        "dropped": {"delay-max-late": "PT0.2S", "delay-if-late": "drop"},
        "a dead letter": {"delay-max-late": "PT0.2S", "delay-if-late": "dead-letter"},
        "not late enough": {"delay-max-late": "PT5M", "delay-if-late": "drop"},
        "no limit": {},
    }
    for id_, policy in policies.items():
        headers = {"delay-id": id_, "delay-at": str(due), "delay-to": to, **policy}
        installation.requests.send(headers, id_.encode(), id_.encode())
    installation.requests.flush()
    installation.await_event("accepted", *policies)
    installation.worker.kill()
    assert now_ms() < due, "this machine is too slow for this test"
    eventually(lambda: now_ms() > due + 500)
    installation.worker.start().wait_ready()

    [dead_letter] = installation.letters_for(1, to)
    assert_right(dead_letter, "too-late", request_of(installation, dead_letter))
    assert "delay-max-late" in dead_letter.header("delay-error")
    dropped = installation.await_event("dropped", "dropped")["dropped"]
    assert (dropped["reason"], dropped["late"] > 200) == ("too-late", True)
    values = {record.value for record in installation.wait_for(to, 4)}
    assert values == {b"delivered late", b"delivered by default", b"not late enough", b"no limit"}


def test_in_time_the_policy_for_late_messages_does_not_apply(installation: Installation) -> None:
    to, due = installation.topic(), now_ms() + 700
    for policy in ("deliver", "drop", "dead-letter"):
        installation.requests.schedule(f"in time, {policy}", due, to, max_late="PT10S", if_late=policy)
    installation.requests.flush()

    assert len(installation.wait_for(to, 3)) == 3
