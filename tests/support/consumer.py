"""Reads a topic with a consumer that nobody here wrote."""

import asyncio
import gc
import logging
import warnings

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError


def consume(address, topic, isolation_level="read_uncommitted", *, timeout=120, **options):
    """Return all records of a topic up to its end, as (partition, offset, value)."""

    async def run():
        consumer = AIOKafkaConsumer(
            bootstrap_servers=address, auto_offset_reset="earliest", isolation_level=isolation_level, **options
        )
        try:
            await consumer.start()
            found = (await consumer._client.fetch_all_metadata()).partitions_for_topic(topic)
            partitions = [TopicPartition(topic, number) for number in found]
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            found = []
            async with asyncio.timeout(timeout):
                while any([await consumer.position(one) < ends[one] for one in partitions]):
                    got = await consumer.getmany(timeout_ms=200)
                    found += [(r.partition, r.offset, r.value) for records in got.values() for r in records]
            return sorted(found)
        finally:
            await consumer.stop()

    refused = _Texts()
    logger = logging.getLogger("aiokafka")
    logger.addHandler(refused)
    logger.propagate = False
    try:
        return asyncio.run(run())
    except (KafkaError, TimeoutError, asyncio.CancelledError) as error:
        refused.texts.append(str(error) or "the records do not come")
    finally:
        logger.propagate = True
        logger.removeHandler(refused)
    # The library leaves a connection that was refused to the garbage collector, which warns.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    raise KafkaError(" ".join(refused.texts))


class _Texts(logging.Handler):
    """Keeps what is logged as text: the records themselves would keep connections alive."""

    def __init__(self):
        super().__init__()
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())
