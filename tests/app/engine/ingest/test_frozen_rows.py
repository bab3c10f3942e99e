"""The rows that requests become, byte by byte, in each version, and the forwards that they travel as."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.engine.steps.outcomes import Rejected
from app.engine.steps.step import Step
from punctual.contract.home import home_partition
from punctual.contract.request import Reason
from tests.app.workbench import Workbench
from tests.punctual.contract.records import NOW, FakeRecord
from tests.punctual.contract.shapes import COMMANDS, FROZEN, SCHEDULES, URL

#: Key and value of the row that each request becomes, in version 1 and 2.
ROWS: dict[str, tuple[str, str, str]] = {
    "plain": (
        "0000019b76db9260000000000000002a8c51ba57",
        (
            "019fb364656c61792d72657175657374732d302d3432a66f7264657273c4016bc4017690b364656c61792d7265717565"
            "7374732d302d3432c0c0c0c0c0c00090c0"
        ),
        (
            "02dc0012b364656c61792d72657175657374732d302d3432a66f7264657273c4016bc4017690b364656c61792d726571"
            "75657374732d302d3432c0c0c0c0c0c00090c0ffc0c0"
        ),
    ),
    "empty": (
        "0000019b76db9260000000000000002a8c51ba57",
        (
            "019fb364656c61792d72657175657374732d302d3432a66f7264657273c0c090b364656c61792d72657175657374732d"
            "302d3432c0c0c0c0c0c00090c0"
        ),
        (
            "02dc0012b364656c61792d72657175657374732d302d3432a66f7264657273c0c090b364656c61792d72657175657374"
            "732d302d3432c0c0c0c0c0c00090c0ffc0c0"
        ),
    ),
    "named": (
        "0000019b76db9454000000000000002a8c51ba57",
        (
            "019faac3b67264c3a9722d3137a66f7264657273c400c401ff9192a161c40100b364656c61792d72657175657374732d"
            "302d3432c0c0c0c0c0c00090c0"
        ),
        (
            "02dc0012aac3b67264c3a9722d3137a66f7264657273c400c401ff9192a161c40100b364656c61792d72657175657374"
            "732d302d3432c0c0c0c0c0c00090c0cf0000019b76daa800c0c0"
        ),
    ),
    "zeros": (
        "0000019b76daa800000000000000002a8c51ba57",
        (
            "019fb364656c61792d72657175657374732d302d3432a66f7264657273c4016bc401769192a161c0b364656c61792d72"
            "657175657374732d302d343200c000c000c00090c0"
        ),
        (
            "02dc0012b364656c61792d72657175657374732d302d3432a66f7264657273c4016bc401769192a161c0b364656c6179"
            "2d72657175657374732d302d343200c000c000c00090c0ffc0c0"
        ),
    ),
    "some": (
        "0000019b76daa800000000000000002a8c51ba57",
        (
            "019fa4736f6d65a66f7264657273c4016bc4017690b364656c61792d72657175657374732d302d3432c0c0ce0036ee80"
            "c0c0b868747470733a2f2f6578616d706c652e636f6d2f6261636b0090c0"
        ),
        (
            "02dc0012a4736f6d65a66f7264657273c4016bc4017690b364656c61792d72657175657374732d302d3432c0c0ce0036"
            "ee80c0c0b868747470733a2f2f6578616d706c652e636f6d2f6261636b0090c0cf0000019b76daa800c0c0"
        ),
    ),
    "everything": (
        "0000019b76db9261000000000000002a8c51ba57",
        (
            "019faa65766572797468696e67a972656d696e64657273c4016bc401769292a57472616365c4013192a475736572c0b3"
            "64656c61792d72657175657374732d302d343202a4656d6561cd1388a464726f70cdea60b868747470733a2f2f657861"
            "6d706c652e636f6d2f6261636b0090c0"
        ),
        (
            "02dc0012aa65766572797468696e67a972656d696e64657273c4016bc401769292a57472616365c4013192a475736572"
            "c0b364656c61792d72657175657374732d302d343202a4656d6561cd1388a464726f70cdea60b868747470733a2f2f65"
            "78616d706c652e636f6d2f6261636b0090c0cf0000019b76daa800c0c0"
        ),
    ),
    "asked before": (
        "0000019b76db9260000000000000002a8c51ba57",
        ("019fa66265666f7265a66f7264657273c4016bc4017690b364656c61792d72657175657374732d302d3432c0c0c0c0c0c00090c0"),
        (
            "02dc0012a66265666f7265a66f7264657273c4016bc4017690b364656c61792d72657175657374732d302d3432c0c0c0"
            "c0c0c00090c0cf0000019b76daa7f9c0c0"
        ),
    ),
    "sent back": (
        "0000019b76db9260000000000000002a8c51ba57",
        (
            "019fa46261636ba66f7264657273c4016bc4017690b364656c61792d72657175657374732d302d343203c009ab646561"
            "642d6c6574746572c0c00090c0"
        ),
        (
            "02dc0012a46261636ba66f7264657273c4016bc4017690b364656c61792d72657175657374732d302d343203c009ab64"
            "6561642d6c6574746572c0c00090c0cf0000019b76daa7fbb264656c61792d72657175657374732d302d37c0"
        ),
    ),
}
#: The same of rows that commands have changed, and of a failure callback.
LATER: dict[str, tuple[str, str, str]] = {
    "moved": (
        "0000019b76dc7cc0000000000000002b8c51ba57",
        (
            "019faac3b67264c3a9722d3137a66f7264657273c400c401ff9192a161c40100b364656c61792d72657175657374732d"
            "302d3432c0c0c0c0c0c00090c0"
        ),
        (
            "02dc0012aac3b67264c3a9722d3137a66f7264657273c400c401ff9192a161c40100b364656c61792d72657175657374"
            "732d302d3432c0c0c0c0c0c00090c0cf0000019b76daa800c092cf0000019b76daa800b364656c61792d726571756573"
            "74732d302d3433"
        ),
    ),
    "written on": (
        "0000019b76db9454000000000000002a8c51ba57",
        (
            "019faac3b67264c3a9722d3137a66f7264657273c400c401ff9192a161c40100b364656c61792d72657175657374732d"
            "302d3432c0c0c0c0c0c0009195aa72657363686564756c65b364656c61792d72657175657374732d302d3433cf000001"
            "9b76dc7cc02bce8c51ba57c0"
        ),
        (
            "02dc0012aac3b67264c3a9722d3137a66f7264657273c400c401ff9192a161c40100b364656c61792d72657175657374"
            "732d302d3432c0c0c0c0c0c0009197aa72657363686564756c65b364656c61792d72657175657374732d302d3433cf00"
            "00019b76dc7cc02bce8c51ba57cf0000019b76daa800c0c0cf0000019b76daa800c0c0"
        ),
    ),
    "rejected": (
        "0000019b76daa800000000000000002a8c51ba57",
        (
            "019faa65766572797468696e67a0c0c4b77b226964223a2265766572797468696e67222c22746f706963223a2272656d"
            "696e64657273222c226b6579223a226b222c2276616c7565223a2276222c2268656164657273223a5b5b227472616365"
            "222c2231225d2c5b2275736572222c6e756c6c5d5d2c22736f75726365223a2264656c61792d72657175657374732d30"
            "2d3432222c22726561736f6e223a22756e64656c6976657261626c65222c226572726f72223a224e6f626f647920746f"
            "6f6b2069742e227d90b364656c61792d72657175657374732d302d3432c0c0c0c0c0c00090b868747470733a2f2f6578"
            "616d706c652e636f6d2f6261636b"
        ),
        (
            "02dc0012aa65766572797468696e67a0c0c4b77b226964223a2265766572797468696e67222c22746f706963223a2272"
            "656d696e64657273222c226b6579223a226b222c2276616c7565223a2276222c2268656164657273223a5b5b22747261"
            "6365222c2231225d2c5b2275736572222c6e756c6c5d5d2c22736f75726365223a2264656c61792d7265717565737473"
            "2d302d3432222c22726561736f6e223a22756e64656c6976657261626c65222c226572726f72223a224e6f626f647920"
            "746f6f6b2069742e227d90b364656c61792d72657175657374732d302d3432c0c0c0c0c0c00090b868747470733a2f2f"
            "6578616d706c652e636f6d2f6261636bffc0c0"
        ),
    ),
    "refused": (
        "0000019b76daa800000000000000002a8c51ba57",
        (
            "019fb364656c61792d72657175657374732d302d3432a0c0c501077b226964223a2264656c61792d7265717565737473"
            "2d302d3432222c22746f706963223a22222c226b6579223a226b222c2276616c7565223a6e756c6c2c22686561646572"
            "73223a5b5b2261222c7b22626173653634223a222f773d3d227d5d5d2c22736f75726365223a2264656c61792d726571"
            "75657374732d302d3432222c22726561736f6e223a226d616c666f726d6564222c226572726f72223a2264656c61792d"
            "61743a2027736f6f6e27206973206e6f7420612074696d652e205573652065706f6368206d696c6c697365636f6e6473"
            "2c206f7220524643203333333920776974682061207a6f6e653a20323033302d30312d33315430383a30303a30305a2e"
            "227d90b364656c61792d72657175657374732d302d3432c0c0c0c0c0c00090b868747470733a2f2f6578616d706c652e"
            "636f6d2f6261636b"
        ),
        (
            "02dc0012b364656c61792d72657175657374732d302d3432a0c0c501077b226964223a2264656c61792d726571756573"
            "74732d302d3432222c22746f706963223a22222c226b6579223a226b222c2276616c7565223a6e756c6c2c2268656164"
            "657273223a5b5b2261222c7b22626173653634223a222f773d3d227d5d5d2c22736f75726365223a2264656c61792d72"
            "657175657374732d302d3432222c22726561736f6e223a226d616c666f726d6564222c226572726f72223a2264656c61"
            "792d61743a2027736f6f6e27206973206e6f7420612074696d652e205573652065706f6368206d696c6c697365636f6e"
            "64732c206f7220524643203333333920776974682061207a6f6e653a20323033302d30312d33315430383a30303a3030"
            "5a2e227d90b364656c61792d72657175657374732d302d3432c0c0c0c0c0c00090b868747470733a2f2f6578616d706c"
            "652e636f6d2f6261636bffc0c0"
        ),
    ),
}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    """One partition of one, with a cold tier."""
    cold = {"DELAY_HORIZON": "PT1H", "DELAY_DEDUPE_WINDOW": "PT10M"}
    bench = Workbench(tmp_path / "bench.db", 0, DELAY_PARTITIONS="1", DELAY_CALLBACKS="https://example.com/*", **cold)
    yield bench
    bench.close()


def rows(bench: Workbench, version: int, *records: FakeRecord) -> list[tuple[str, str]]:
    """Return the rows that a step of these records puts into the table."""
    step = Step(NOW, NOW, version)
    bench.ingest.apply(step, bench.ingest.read(step, records), bench.partitions_of, 1 << 30)
    return put(step)


def frozen(row: tuple[str, str, str], version: int) -> tuple[str, str]:
    """Return key and value of a row in a version; in version 3, an unchanged row has two more empty fields."""
    key, *values = row
    if version < 3:
        return key, values[version - 1]
    return key, f"{values[1]}c0c0".replace("02dc0012", "03dc0014", 1)


def put(step: Step) -> list[tuple[str, str]]:
    return [(row.hex(), raw.hex()) for row, (_, raw) in step.changes.puts.items()]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("name", SCHEDULES)
def test_the_row_of_each_shape_is_frozen(bench: Workbench, name: str, version: int) -> None:
    assert rows(bench, version, SCHEDULES[name]) == [frozen(ROWS[name], version)]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_row_that_was_moved_is_frozen(bench: Workbench, version: int) -> None:
    moved = replace(COMMANDS["reschedule"], offset=43)

    assert rows(bench, version, SCHEDULES["named"], moved) == [frozen(LATER["moved"], version)]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_row_that_a_command_is_written_on_is_frozen(bench: Workbench, version: int) -> None:
    bench.run(SCHEDULES["named"])
    bench.claim("ördér-17")
    step = Step(NOW, NOW, version)
    found = bench.ingest.read(step, [replace(COMMANDS["reschedule"], offset=43)])
    bench.ingest.apply(step, found, bench.partitions_of, 1 << 30)

    ((row, (_, raw)),) = step.changes.puts.items()
    assert (row.hex(), raw.hex()) == frozen(LATER["written on"], version)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_row_of_a_failure_callback_is_frozen(bench: Workbench, version: int) -> None:
    bench.run(SCHEDULES["everything"])
    step = Step(NOW, NOW, version)
    bench.outcomes.apply(step, Rejected(bench.claim("everything"), Reason.UNDELIVERABLE, "Nobody took it."))

    assert put(step) == [frozen(LATER["rejected"], version)]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_row_of_a_callback_for_a_refused_request_is_frozen(bench: Workbench, version: int) -> None:
    headers = [("a", b"\xff"), ("delay-at", b"soon"), ("delay-to", b"orders"), ("delay-on-failure", URL.encode())]

    found = rows(bench, version, FakeRecord(headers, b"k", None, partition=0))
    assert found == [frozen(LATER["refused"], version)]


@pytest.mark.parametrize("name", ["named", "some", "everything", "asked before", "cancel", "reschedule"])
def test_the_forward_of_each_shape_is_frozen(tmp_path: Path, name: str) -> None:
    record = (SCHEDULES | COMMANDS)[name]
    id_ = dict(record.headers)["delay-id"] or b""
    home = home_partition(id_, ["delay-requests"], 4)
    bench = Workbench(tmp_path / "away.db", number=(home + 1) % 4, DELAY_CALLBACKS="*")
    bench.run(record)
    bench.close()

    (out,) = bench.sends
    assert (out.topic, out.partition, out.key, out.headers) == ("delay-forwards", home, id_, [])
    assert (out.value or b"").hex() == FORWARDS.get(name, FROZEN[name])


#: Fields that differ from the wire form of the decoded request: stamps are set where records are read.
FORWARDS: dict[str, str] = {
    "asked before": (
        "dc0017a87363686564756c65a66265666f7265b364656c61792d72657175657374732d302d3432cf0000019b76daa7f9"
        "ae64656c61792d7265717565737473cf0000019b76db9260a66f7264657273c4016bc4017690c0c0c0c0c0c0c0c0cf00"
        "00019b76daa7f9c0c0c000"
    ),
}
