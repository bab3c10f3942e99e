"""A connection that was lost a moment ago fails as any other does."""

import asyncio
import socket
import struct

import pytest
import uvloop
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.metadata import MetadataRequest

from app.kafka.patches import lost_connections
from tests.harness.waiting import LIMIT_S


async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the first bytes with a reset."""
    await reader.read(1)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def write_until_it_fails() -> None:
    """Write in each turn of the loop, so that a write comes between the loss and aiokafka's notice of it."""
    async with await asyncio.start_server(reset, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        connection = AIOKafkaConnection("127.0.0.1", port)
        connection._reader, connection._writer = await asyncio.open_connection("127.0.0.1", port)
        connection._read_task = asyncio.get_running_loop().create_task(asyncio.sleep(0))
        connection._versions = {3: (0, 1)}
        try:
            async with asyncio.timeout(LIMIT_S):
                while True:
                    connection.send(MetadataRequest([]), expect_response=False).close()
                    await asyncio.sleep(0)
        finally:
            assert connection._writer is None


def test_a_write_between_the_loss_and_its_notice_is_a_kafka_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("send", "_send_sasl_token"):
        monkeypatch.setattr(AIOKafkaConnection, name, getattr(AIOKafkaConnection, name))  # put back at the end
    lost_connections.install()

    with pytest.raises(KafkaConnectionError, match="is lost"), asyncio.Runner(loop_factory=uvloop.new_event_loop) as it:
        it.run(write_until_it_fails())
