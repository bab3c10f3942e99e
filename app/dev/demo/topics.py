"""The shop's own topics: the destinations of its messages."""

from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from app.settings.settings import Settings

ORDERS = "orders"
REMINDERS = "reminders"
PARTITIONS = 4


async def create_topics(settings: Settings) -> None:
    """Create the topics `orders` and `reminders` unless they are there."""
    admin = AIOKafkaAdminClient(bootstrap_servers=settings.bootstrap, **settings.kafka_options())
    await admin.start()
    try:
        missing = sorted({ORDERS, REMINDERS} - set(await admin.list_topics()))
        await admin.create_topics([NewTopic(name, PARTITIONS, settings.replication_factor) for name in missing])
    finally:
        await admin.close()
