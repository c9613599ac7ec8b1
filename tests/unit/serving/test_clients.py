"""A consumer that nobody here wrote reads a directory as it reads a broker."""

import asyncio
import shutil

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

import brokerless as bl

COUNT = 400


@pytest.fixture
def data(tmp_path):
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("orders", partitions=4)
    for partition in range(4):
        with bl.Producer(tmp_path / "data", "orders") as producer:
            rows = [{"value": b"%d" % at, "partition": partition} for at in range(partition, COUNT, 4)]
            producer.send(rows)
    return tmp_path / "data"


async def read(consumer, count, got=None):
    """Return the values of so many records."""
    got = [] if got is None else got
    while len(got) < count:
        found = await consumer.getmany(timeout_ms=500)
        got += [int(record.value) for records in found.values() for record in records]
    return got


def consumer(address, **options):
    return AIOKafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest", **options)


def test_a_consumer_reads_all_records(data):
    async def run(address):
        async with consumer(address) as one:
            one.assign([TopicPartition("orders", partition) for partition in range(4)])
            return await read(one, COUNT)

    with bl.serve(data) as address:
        assert sorted(asyncio.run(run(address))) == list(range(COUNT))


def test_a_group_goes_on_where_it_was(data, tmp_path):
    async def run(address, count):
        async with consumer(address, group_id="g", max_poll_records=50, enable_auto_commit=False) as one:
            one.subscribe(["orders"])
            got = []
            while len(got) < count:
                found = await one.getmany(timeout_ms=500)
                got += [int(record.value) for records in found.values() for record in records]
                await one.commit()
            return got

    commits = tmp_path / "commits"
    with bl.serve(data, commits=commits) as address:
        first = asyncio.run(run(address, 100))
    with bl.serve(data, commits=commits) as address:
        rest = asyncio.run(run(address, COUNT - len(first)))
    assert sorted(first + rest) == list(range(COUNT))


def test_members_of_a_group_share_the_partitions_and_take_over_those_of_one_that_leaves(data):
    async def run(address):
        options = {"group_id": "g", "enable_auto_commit": False, "session_timeout_ms": 6000}
        members = [consumer(address, **options, heartbeat_interval_ms=200) for _ in range(3)]
        for member in members:
            member.subscribe(["orders"])
        await asyncio.gather(*(member.start() for member in members))
        counts = sorted(len(member.assignment()) for member in members)
        async with asyncio.timeout(30):
            while counts != [1, 1, 2]:
                await asyncio.gather(*(member.getmany(timeout_ms=100) for member in members))
                counts = sorted(len(member.assignment()) for member in members)
            await members[0].stop()
            while sum(len(member.assignment()) for member in members[1:]) < 4:
                await asyncio.gather(*(member.getmany(timeout_ms=100) for member in members[1:]))
        await asyncio.gather(*(member.stop() for member in members[1:]))

    with bl.serve(data) as address:
        asyncio.run(run(address))


def test_a_producer_is_refused_and_nothing_changes(data):
    async def run(address):
        async with AIOKafkaProducer(bootstrap_servers=address) as producer:
            await producer.send_and_wait("orders", b"new", partition=0)

    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    with bl.serve(data) as address, pytest.raises(KafkaError):
        asyncio.run(run(address))
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before


def test_records_that_are_written_meanwhile_arrive(data):
    async def run(address):
        async with consumer(address) as one:
            one.assign([TopicPartition("orders", 0)])
            first = await read(one, COUNT // 4)
            with bl.Producer(data, "orders") as producer:
                producer.send([{"value": b"1000", "partition": 0}])
            async with asyncio.timeout(20):
                return first, await read(one, 1)

    with bl.serve(data) as address:
        first, later = asyncio.run(run(address))
    assert (len(first), later) == (COUNT // 4, [1000])


def test_librdkafka_reads_a_log_that_has_had_several_leaders(golden):
    """It claims leader epoch 0 where the metadata tell none; to fence it would keep it waiting for ever."""
    path = golden / "logs" / "kafka-4.1" / "leader-epochs-0"
    assert bl.Log(path).leader_epochs[-1].epoch > 0
    with bl.serve(path) as address:
        consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "log_level": 0})
        consumer.assign([Place("leader-epochs", 0, 0)])
        records = consumer.consume(1, 20)
        consumer.close()
    assert [record.offset() for record in records] == [0]


def test_librdkafka_lists_all_topics(data):
    """Its request has three bytes behind its end, which brokers ignore."""
    with bl.serve(data) as address:
        topics = AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=20).topics
    assert {name: len(topic.partitions) for name, topic in topics.items()} == {"orders": 4}


def test_two_servers_do_not_share_a_file_of_commits(data, tmp_path):
    """Each would write down the commits of the other no more."""
    first = bl.serve(data, commits=tmp_path / "commits")
    second = bl.serve(data, commits=tmp_path / "commits")
    with first, pytest.raises(OSError, match="another server keeps its commits there"), second:
        pass
    with bl.serve(data, commits=tmp_path / "commits"):
        pass


def test_a_file_of_commits_that_is_none_is_refused_at_once(data, tmp_path):
    (tmp_path / "commits").write_text("g\tt\n")
    with pytest.raises(OSError, match="line 1 is not a valid commit"), bl.serve(data, commits=tmp_path / "commits"):
        pass
    (tmp_path / "commits").write_text("none of ours")
    with pytest.raises(OSError, match="line 1 is not a valid commit"), bl.serve(data, commits=tmp_path / "commits"):
        pass
    assert (tmp_path / "commits").read_text() == "none of ours"
    with pytest.raises(OSError, match="nowhere"), bl.serve(data, commits=tmp_path / "nowhere" / "commits"):
        pass


def commit_of(address, offset):
    """Commit an offset of orders-0 for the group g."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "log_level": 0})
    consumer.assign([Place("orders", 0, 0)])
    consumer.commit(offsets=[Place("orders", 0, offset)], asynchronous=False)
    consumer.close()


def test_commits_are_written_through_no_link(data, tmp_path):
    """A link beside the file, or in its place, would lead the server to write to any file of its user."""
    victim = tmp_path / "victim"
    victim.write_text("as before")
    lock, new = tmp_path / "commits.lock", tmp_path / "commits.new"
    lock.symlink_to(victim)
    with pytest.raises(OSError, match="commits"), bl.serve(data, commits=tmp_path / "commits"):
        pass
    lock.unlink()
    new.symlink_to(victim)
    with bl.serve(data, commits=tmp_path / "commits") as address:
        commit_of(address, 7)
    assert (tmp_path / "commits").read_text() == "g\torders\t0\t7\t-1\t\n"
    (tmp_path / "link").symlink_to(victim)
    with pytest.raises(OSError, match="link"), bl.serve(data, commits=tmp_path / "link"):
        pass
    assert victim.read_text() == "as before"


@pytest.mark.parametrize("option", ["commits", "read_log"])
def test_no_file_is_written_into_a_directory_that_is_served(data, tmp_path, option):
    (tmp_path / "way").symlink_to(data)
    (tmp_path / "file").symlink_to(data / "orders-0" / "reads")
    for place in (data / "x", data / "orders-0" / "x", tmp_path / "way" / "x", tmp_path / "file"):
        with pytest.raises(ValueError, match="is in a directory that is served"), bl.serve(data, **{option: place}):
            pass
    with pytest.raises(ValueError, match="is served"), bl.serve(tmp_path / "way", **{option: data / "x"}):
        pass
    assert not list(data.rglob("x*"))
    with bl.serve(data, **{option: tmp_path / "beside"}):
        pass


def test_no_file_is_written_around_a_partition_that_is_served(data, tmp_path):
    """The parent of a copied partition is another thing: anything may be there."""
    with pytest.raises(ValueError, match="is served"), bl.serve(data / "orders-0", commits=data / "c.tsv"):
        pass
    shutil.copytree(data / "orders-0", tmp_path / "copy" / "orders-0")
    with bl.serve(tmp_path / "copy" / "orders-0", commits=tmp_path / "copy" / "c.tsv"):
        pass


def test_a_file_that_is_served_is_not_written_by_another_name(data, tmp_path):
    segment = data / "orders-0" / f"{0:020d}.log"
    before = segment.read_bytes()
    (tmp_path / "reads").hardlink_to(segment)
    with pytest.raises(ValueError, match="is served"), bl.serve(data, read_log=tmp_path / "reads"):
        pass
    assert segment.read_bytes() == before


@pytest.mark.parametrize("name", ["same", "same.lock", "same.new", "link", "hard"])
def test_one_file_has_one_purpose(data, tmp_path, name):
    """Lines of JSON between commits, and the next start finds neither."""
    if name in ("link", "hard"):
        (tmp_path / "same").touch()
    if name == "link":
        (tmp_path / name).symlink_to(tmp_path / "same")
    if name == "hard":
        (tmp_path / name).hardlink_to(tmp_path / "same")
    with (
        pytest.raises(ValueError, match=f"read_log: .*{name} is already used for commits"),
        bl.serve(data, commits=tmp_path / "same", read_log=tmp_path / name),
    ):
        pass


def test_a_file_that_the_server_reads_is_not_written(data, tmp_path):
    (tmp_path / "users").write_text("ann:secret\n")
    with (
        pytest.raises(ValueError, match="users is a file that the server reads"),
        bl.serve(data, users=tmp_path / "users", read_log=tmp_path / "users"),
    ):
        pass
    assert (tmp_path / "users").read_text() == "ann:secret\n"


def test_no_lock_is_left_behind(data, tmp_path):
    """Also where the start fails; and no file that holds something is taken for a lock."""
    commits, lock = tmp_path / "commits", tmp_path / "commits.lock"
    with bl.serve(data, commits=commits) as address:
        assert lock.exists()
        with pytest.raises(OSError, match="another server"), bl.serve(data, commits=commits):
            pass
        with (
            pytest.raises(OSError, match=address),
            bl.serve(data, listen=address, commits=tmp_path / "others"),
        ):
            pass
        assert lock.exists()
    assert sorted(tmp_path.iterdir()) == [data]
    lock.write_text("notes")
    with bl.serve(data, commits=commits):
        pass
    assert lock.read_text() == "notes"


def test_the_error_names_the_file_whose_directory_is_missing(data, tmp_path):
    with (
        pytest.raises(OSError, match=r"/absent/commits: there is no such directory$"),
        bl.serve(data, commits=tmp_path / "absent/commits"),
    ):
        pass


def test_the_error_names_the_link(data, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "commits")
    with (
        pytest.raises(OSError, match=r"link is a link, and .*: name the file"),
        bl.serve(data, commits=tmp_path / "link"),
    ):
        pass


@pytest.mark.parametrize("option", ["listen", "advertised", "metrics"])
@pytest.mark.parametrize("port", ["99999", "65536", "-1", "x", "", "9" * 5000])
def test_a_port_that_is_none_is_refused_by_name(data, option, port):
    with (
        pytest.raises(ValueError, match=f"{option}: .*a port is a number from 0 to 65535"),
        bl.serve(data, **{option: f"127.0.0.1:{port}"}),
    ):
        pass


def test_a_port_in_use_is_named(data):
    with bl.serve(data) as address:
        for options in ({"listen": address}, {"metrics": address}):
            with pytest.raises(OSError, match=f"cannot listen on {address}: .*in use"), bl.serve(data, **options):
                pass


def test_lines_that_an_earlier_release_wrote_are_read_and_added_to(data, tmp_path):
    commits = tmp_path / "commits"
    # The last one was cut by a crash.
    commits.write_text("g\torders\t0\t5\t-1\t\ng\torders\t1\t6\t-1\tm\ng\tord")
    with bl.serve(data, commits=commits) as address:
        commit_of(address, 9)
        consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "log_level": 0})
        found = consumer.committed([Place("orders", 0), Place("orders", 1)], timeout=20)
        consumer.close()
    assert [place.offset for place in found] == [9, 6]
    assert commits.read_text().splitlines()[-1] == "g\torders\t0\t9\t-1\t"
    assert len(commits.read_text().splitlines()) == 3
