"""`python -m app.dev.broker.topic NAME`: creates a topic with one copy. Exit code: 0 it exists, 1 failed, 2 no name."""

import asyncio
import logging
import os
import sys

import aiokafka.errors
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from app.dev.broker.__main__ import DEFAULT_PORT
from app.dev.broker.ports import HOST

_USAGE = 2


def main() -> int:
    """Create the topic in the command line, unless it exists."""
    if len(sys.argv) != 2:  # noqa: PLR2004 - the program and a name
        sys.stderr.write("Name the topic: make topic NAME=orders\n")
        return _USAGE
    servers = os.environ.get("KAFKA_BOOTSTRAP_SERVERS") or f"{HOST}:{os.environ.get('KAFKA_PORT') or DEFAULT_PORT}"
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # its errors are raised too
    try:
        sys.stdout.write(f"{asyncio.run(_create(servers, sys.argv[1]))}\n")
    except aiokafka.errors.KafkaConnectionError:
        sys.stderr.write(
            f"No Kafka answers at {servers}. Start one with `make kafka`, or set KAFKA_BOOTSTRAP_SERVERS to another.\n"
        )
        return 1
    except aiokafka.errors.KafkaError as error:
        sys.stderr.write(f"The topic {sys.argv[1]} cannot be created: {error}\n")
        return 1
    return 0


async def _create(servers: str, name: str) -> str:
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        response = await admin.create_topics([NewTopic(name, 1, 1)])
    finally:
        await admin.close()
    for _, code, message in response.topic_errors:
        error = aiokafka.errors.for_code(code)
        if error is aiokafka.errors.TopicAlreadyExistsError:
            return f"the topic {name} already exists"
        if error is not aiokafka.errors.NoError:
            raise error(message)
    return f"created the topic {name} with 1 partition"


if __name__ == "__main__":
    sys.exit(main())
