"""Requests of every shape, and the frozen bytes of their wire form."""

from dataclasses import replace

from tests.punctual.contract.records import NOW, FakeRecord, Log

URL = "https://example.com/back"


def _asked(key: bytes | None = b"k", value: bytes | None = b"v", /, **said: str | bytes | None) -> FakeRecord:
    return replace(Log(offset=42).record(**said), key=key, value=value)


SCHEDULES: dict[str, FakeRecord] = {
    "plain": _asked(delay_to="orders", delay_at=str(NOW + 60_000)),
    "empty": _asked(None, None, delay_to="orders", delay_after="PT1M"),
    "named": _asked(b"", b"\xff", delay_to="orders", delay_at="2026-01-01T00:01:00.5Z", delay_id="ördér-17", a=b"\x00"),
    "zeros": _asked(
        delay_to="orders", delay_after="0", delay_to_partition="0", delay_max_late="0", delay_dedupe="0", a=None
    ),
    "some": _asked(delay_to="orders", delay_after="0", delay_id="some", delay_on_failure=URL, delay_max_late="PT1H"),
    "everything": _asked(
        trace="1",
        delay_to="reminders",
        delay_at=str(NOW + 60_001),
        delay_id="everything",
        delay_to_partition="2",
        delay_to_cluster="emea",
        delay_max_late="5000",
        delay_if_late="drop",
        delay_dedupe="PT1M",
        delay_on_failure=URL,
        delay_op="schedule",
        user=None,
    ),
    "asked before": _asked(delay_to="orders", delay_after="PT1M", delay_id="before", delay_asked_at=str(NOW - 7)),
    "sent back": _asked(
        delay_id="back",
        delay_to="orders",
        delay_at=str(NOW + 60_000),
        delay_to_partition="3",
        delay_if_late="dead-letter",
        delay_max_late="9",
        delay_source="delay-requests-0-7",
        delay_parked=f"{NOW - 5},{NOW - 1}",
    ),
}
COMMANDS: dict[str, FakeRecord] = {
    "cancel": _asked(delay_op="cancel", delay_id="a", delay_if_due=str(NOW + 60_000)),
    "reschedule": _asked(delay_op="reschedule", delay_id="ördér-17", delay_after="PT2M", user="left out"),
    "deliver now": _asked(delay_op="deliver-now", delay_id="a", delay_asked_at=str(NOW - 7)),
}
FROZEN: dict[str, str] = {
    "plain": (
        "dc0017a87363686564756c65b364656c61792d72657175657374732d302d3432b364656c61792d72657175657374732d"
        "302d3432cf0000019b76daa800ae64656c61792d7265717565737473cf0000019b76db9260a66f7264657273c4016bc4"
        "017690c0c0c0c0c0c0c0c0c0c0c0c000"
    ),
    "empty": (
        "dc0017a87363686564756c65b364656c61792d72657175657374732d302d3432b364656c61792d72657175657374732d"
        "302d3432cf0000019b76daa800ae64656c61792d7265717565737473cf0000019b76db9260a66f7264657273c0c090c0"
        "c0c0c0c0c0c0c0c0c0c0c000"
    ),
    "named": (
        "dc0017a87363686564756c65aac3b67264c3a9722d3137b364656c61792d72657175657374732d302d3432cf0000019b"
        "76daa800ae64656c61792d7265717565737473cf0000019b76db9454a66f7264657273c400c401ff9192a161c40100c0"
        "c0c0c0c0c0c0c0c0c0c0c000"
    ),
    "zeros": (
        "dc0017a87363686564756c65b364656c61792d72657175657374732d302d3432b364656c61792d72657175657374732d"
        "302d3432cf0000019b76daa800ae64656c61792d7265717565737473cf0000019b76daa800a66f7264657273c4016bc4"
        "01769192a161c000c000c000c0c0c0c0c0c0c000"
    ),
    "some": (
        "dc0017a87363686564756c65a4736f6d65b364656c61792d72657175657374732d302d3432cf0000019b76daa800ae64"
        "656c61792d7265717565737473cf0000019b76daa800a66f7264657273c4016bc4017690c0c0ce0036ee80c0c0b86874"
        "7470733a2f2f6578616d706c652e636f6d2f6261636bc0c0c0c0c0c000"
    ),
    "everything": (
        "dc0017a87363686564756c65aa65766572797468696e67b364656c61792d72657175657374732d302d3432cf0000019b"
        "76daa800ae64656c61792d7265717565737473cf0000019b76db9261a972656d696e64657273c4016bc401769292a574"
        "72616365c4013192a475736572c002a4656d6561cd1388a464726f70cdea60b868747470733a2f2f6578616d706c652e"
        "636f6d2f6261636bc0c0c0c0c0c000"
    ),
    "asked before": (
        "dc0017a87363686564756c65a66265666f7265b364656c61792d72657175657374732d302d3432cf0000019b76daa800"
        "ae64656c61792d7265717565737473cf0000019b76db9260a66f7264657273c4016bc4017690c0c0c0c0c0c0c0c0cf00"
        "00019b76daa7f9c0c0c000"
    ),
    "sent back": (
        "dc0017a87363686564756c65a46261636bb364656c61792d72657175657374732d302d3432cf0000019b76daa800ae64"
        "656c61792d7265717565737473cf0000019b76db9260a66f7264657273c4016bc401769003c009ab646561642d6c6574"
        "746572c0c0c094cf0000019b76daa7fbcf0000019b76daa7ffb264656c61792d72657175657374732d302d37c0c0c0c0c000"
    ),
    "cancel": (
        "dc0017a663616e63656ca161b364656c61792d72657175657374732d302d3432cf0000019b76daa800ae64656c61792d"
        "726571756573747300a0c0c090c0c0c0c0c0c0cf0000019b76db9260c0c0c0c0c000"
    ),
    "reschedule": (
        "dc0017aa72657363686564756c65aac3b67264c3a9722d3137b364656c61792d72657175657374732d302d3432cf0000"
        "019b76daa800ae64656c61792d7265717565737473cf0000019b76dc7cc0a0c0c090c0c0c0c0c0c0c0c0c0c0c0c000"
    ),
    "deliver now": (
        "dc0017ab64656c697665722d6e6f77a161b364656c61792d72657175657374732d302d3432cf0000019b76daa800ae64"
        "656c61792d7265717565737473cf0000019b76daa800a0c0c090c0c0c0c0c0c0c0c0cf0000019b76daa7f9c0c0c000"
    ),
}
