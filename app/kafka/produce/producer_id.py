"""The id and epoch under which a broker knows the numbers of batches (KIP-98)."""

import asyncio

import aiokafka.errors as kafka
from aiokafka.protocol.transaction import InitProducerIdRequest

from app.kafka.metadata.cluster import Cluster

#: An id, and its epoch.
ProducerId = tuple[int, int]

_ASK_EVERY_S = 0.2


async def new_producer_id(cluster: Cluster) -> ProducerId:
    """Return a fresh producer id, as soon as the cluster has one to give.

    Raises aiokafka.errors.KafkaError if it gives none.
    """
    while True:
        response = await cluster.ask(InitProducerIdRequest(None, 0))
        error = kafka.for_code(response.error_code)
        if error is kafka.NoError:
            return response.producer_id, response.producer_epoch
        if not getattr(error, "retriable", False):
            raise error("the cluster returns no producer id")
        await asyncio.sleep(_ASK_EVERY_S)
