"""Kafka clients in Python for the jobs of `clients.py`: `reader.py LIBRARY`, a job a line.

In a process of its own, as a test's own process has a module `kafka`.
"""

import asyncio
import base64
import json
import sys
import time

SECONDS = 240


def name_of(topic, partition):
    return f"{topic}-{partition}"


def split(name):
    topic, _, partition = name.rpartition("-")
    return topic, int(partition)


def text(content):
    return None if content is None else base64.b64encode(content).decode()


def say(**row):
    sys.stdout.write(json.dumps(row) + "\n")


def say_record(topic, partition, offset, time, key, value, headers, **more):
    """Write a row; `time`: the timestamp, and its type where the client tells it."""
    names = "topic", "partition", "offset", "timestamp", "timestampType"
    say(
        **dict(zip(names, (topic, partition, offset, *time), strict=False)),
        key=text(key),
        value=text(value),
        headers=[[name, text(content)] for name, content in headers],
        **more,
    )


class Confluent:
    """confluent-kafka, which is librdkafka."""

    def __init__(self):
        import confluent_kafka
        from confluent_kafka import admin

        self._kafka, self._admin = confluent_kafka, admin

    def _consumer(self, job, **more):
        return self._kafka.Consumer(
            {
                "bootstrap.servers": job["at"],
                "group.id": job.get("group") or "none",
                "log_level": 0,
                "isolation.level": job["isolation"],
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 10,
                **more,
            }
        )

    def _places(self, job, offset):
        return [
            self._kafka.TopicPartition(*split(name), offset if given is None else given)
            for name, given in job["partitions"].items()
        ]

    def read(self, job):
        if job["start"] == "group":
            consumer = self._consumer(job)
            consumer.commit(offsets=self._places(job, None), asynchronous=False)
            consumer.close()
        consumer = self._consumer(job)
        if job["start"] == "beginning":
            places = self._places(job, self._kafka.OFFSET_BEGINNING)
        elif job["start"] == "time":
            places = consumer.offsets_for_times(self._places(job, None), SECONDS)
        else:
            names = [self._kafka.TopicPartition(*split(name)) for name in job["partitions"]]
            places = consumer.committed(names, SECONDS)
        consumer.assign(places)
        left = set(job["partitions"])
        while left:
            (message,) = consumer.consume(1, SECONDS)
            if message.error() is None:
                self._say(message)
            elif message.error().code() == self._kafka.KafkaError._PARTITION_EOF:
                left.discard(name_of(message.topic(), message.partition()))
            else:
                raise self._kafka.KafkaException(message.error())
        consumer.close()

    def _say(self, message):
        kind, timestamp = message.timestamp()
        place = message.topic(), message.partition(), message.offset()
        # TIMESTAMP_NOT_AVAILABLE is 0 here.
        times = (timestamp, kind - 1) if kind else (-1, -1)
        content = times, message.key(), message.value(), message.headers() or []
        epoch = message.leader_epoch()
        say_record(*place, *content, leaderEpoch=epoch if epoch is not None and epoch >= 0 else None)

    def offsets(self, job):
        level = self._kafka.IsolationLevel[job["isolation"].upper()]
        special = {-1: self._admin.OffsetSpec.latest(), -2: self._admin.OffsetSpec.earliest()}
        special[-3] = self._admin.OffsetSpec.max_timestamp()
        client = self._admin.AdminClient({"bootstrap.servers": job["at"], "log_level": 0})
        for number in range(max(map(len, job["partitions"].values()))):
            asked = {
                self._kafka.TopicPartition(*split(name)): queries[number]
                for name, queries in job["partitions"].items()
                if number < len(queries) and (queries[number] >= 0 or queries[number] in special)
            }
            specs = {
                place: special[query] if query in special else self._admin.OffsetSpec.for_timestamp(query)
                for place, query in asked.items()
            }
            for place, found in client.list_offsets(specs, isolation_level=level).items() if specs else ():
                result = found.result(SECONDS)
                say(topic=place.topic, partition=place.partition, query=asked[place], offset=result.offset)

    def member(self, job):
        assigned = []
        consumer = self._consumer(
            job, **{"auto.offset.reset": "earliest", "session.timeout.ms": 6000, "heartbeat.interval.ms": 300}
        )
        consumer.subscribe(job["topics"])
        while True:
            records = [one for one in consumer.consume(10, 0.1) if one.error() is None]
            if consumer.assignment() != assigned:
                assigned = consumer.assignment()
                say(assigned=len(assigned))
            for message in records:
                self._say(message)
            sys.stdout.flush()
            try:
                if records:
                    consumer.commit(asynchronous=False)
            except self._kafka.KafkaException:
                # The partitions have another member; the next poll joins again.
                continue
            time.sleep(job["pause"] / 1000)


# aiokafka began as a copy of kafka-python: they have the same options and results.


def options(job):
    return {
        "bootstrap_servers": job["at"],
        "group_id": job.get("group"),
        "isolation_level": job["isolation"],
        "enable_auto_commit": False,
        "auto_offset_reset": "none",
        "fetch_max_wait_ms": 10,
    }


def places_of(job, kind):
    return {kind(*split(name)): given for name, given in job["partitions"].items()}


def rounds(places):
    """Yield a time for each partition that has one left; they cannot ask for special ones."""
    for number in range(max(map(len, places.values()))):
        asked = {place: times[number] for place, times in places.items() if number < len(times) and times[number] >= 0}
        if asked:
            yield asked


def say_offsets(asked, found):
    for place, one in found.items():
        offset = -1 if one is None else one.offset
        say(topic=place.topic, partition=place.partition, query=asked[place], offset=offset)


def fields_of(record):
    # They tell no type of a timestamp that is -1.
    time = (-1,) if record.timestamp in (None, -1) else (record.timestamp, record.timestamp_type)
    place = record.topic, record.partition, record.offset
    return *place, time, record.key, record.value, record.headers


class AioKafka:
    """aiokafka."""

    def __init__(self):
        import aiokafka

        self._kafka = aiokafka

    def _consumer(self, job):
        return self._kafka.AIOKafkaConsumer(**options(job))

    def read(self, job):
        asyncio.run(self._read(job))

    async def _read(self, job):
        places = places_of(job, self._kafka.TopicPartition)
        if job["start"] == "group":
            async with self._consumer(job) as consumer:
                consumer.assign(list(places))
                await consumer.commit(places)
        async with self._consumer(job) as consumer:
            consumer.assign(list(places))
            if job["start"] == "beginning":
                await consumer.seek_to_beginning(*places)
            elif job["start"] == "time":
                for place, found in (await consumer.offsets_for_times(places)).items():
                    consumer.seek(place, found.offset)
            ends = await consumer.end_offsets(list(places))
            async with asyncio.timeout(SECONDS):
                while any([await consumer.position(place) < end for place, end in ends.items()]):
                    for records in (await consumer.getmany(timeout_ms=200)).values():
                        for record in records:
                            say_record(*fields_of(record))

    def offsets(self, job):
        asyncio.run(self._offsets(job))

    async def _offsets(self, job):
        places = places_of(job, self._kafka.TopicPartition)
        # A consumer that is closed before it has done anything raises an error.
        if not any(time >= 0 for times in places.values() for time in times):
            return
        async with self._consumer(job) as consumer:
            for asked in rounds(places):
                say_offsets(asked, await consumer.offsets_for_times(asked))


class KafkaPython:
    """kafka-python."""

    def __init__(self):
        import kafka

        self._kafka = kafka

    def _consumer(self, job):
        return self._kafka.KafkaConsumer(**options(job))

    def read(self, job):
        places = places_of(job, self._kafka.TopicPartition)
        if job["start"] == "group":
            consumer = self._consumer(job)
            consumer.assign(list(places))
            consumer.commit({place: self._kafka.OffsetAndMetadata(at, "", -1) for place, at in places.items()})
            consumer.close()
        consumer = self._consumer(job)
        consumer.assign(list(places))
        if job["start"] == "beginning":
            consumer.seek_to_beginning(*places)
        elif job["start"] == "time":
            for place, found in consumer.offsets_for_times(places).items():
                consumer.seek(place, found.offset)
        ends = consumer.end_offsets(list(places))
        deadline = time.monotonic() + SECONDS
        while any(consumer.position(place) < end for place, end in ends.items()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not at the end after {SECONDS} s")
            for records in consumer.poll(timeout_ms=200).values():
                for record in records:
                    say_record(*fields_of(record))
        consumer.close()

    def offsets(self, job):
        places = places_of(job, self._kafka.TopicPartition)
        consumer = self._consumer(job)
        # Of topics that it does not know yet, it leaves out the answers.
        consumer.assign(list(places))
        consumer.end_offsets(list(places))
        for asked in rounds(places):
            say_offsets(asked, consumer.offsets_for_times(asked))
        consumer.close()


def main():
    library = {"confluent-kafka": Confluent, "aiokafka": AioKafka, "kafka-python": KafkaPython}[sys.argv[1]]()
    for line in sys.stdin:
        job = json.loads(line)
        try:
            getattr(library, job["do"])(job)
        except Exception as error:  # noqa: BLE001 (the test shows it)
            say(error=f"{type(error).__name__}: {error}")
        else:
            say(done=True)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
