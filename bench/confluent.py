"""Consumers of librdkafka, driven as `java/src/main/java/Consumers.java` is."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Consumer, TopicPartition


def read(address: str, topic: str, partitions: int, wanted: int) -> tuple[float, int, float]:
    """Return the time of the first record, the bytes, and the seconds."""
    start, first, count, size = time.perf_counter(), 0.0, 0, 0
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "bench",
            "enable.auto.commit": False,
            # A server that is starting is asked again at once.
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 10,
            "retry.backoff.ms": 10,
            "retry.backoff.max.ms": 10,
            "topic.metadata.refresh.fast.interval.ms": 10,
            "log_level": 0,
        }
    )
    # Not OFFSET_BEGINNING: as long as it has no broker, librdkafka asks for that only each 500 ms.
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    while count < wanted:
        found = consumer.consume(10_000 if count else 1, timeout=1)
        records = [record for record in found if record.error() is None]
        if records and not count:
            first = time.time()
        count += len(records)
        size += sum(map(len, records))
    taken = time.perf_counter() - start
    consumer.close()
    return first, size, taken


def main() -> None:
    """Answer each line with one."""
    with ThreadPoolExecutor(200) as threads:
        for line in sys.stdin:
            address, topic, partitions, clients, wanted = line.split()
            running = [threads.submit(read, address, topic, int(partitions), int(wanted)) for _ in range(int(clients))]
            found = [client.result() for client in running]
            seconds = " ".join(str(taken) for *_, taken in found)
            print(f"{min(first for first, *_ in found):.6f} {sum(size for _, size, _ in found)} {seconds}", flush=True)


if __name__ == "__main__":
    main()
