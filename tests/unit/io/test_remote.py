"""A store is read like a directory: the same rows, few requests, and errors that name the URL."""

import shutil
import sys

import fsspec
import pytest

import brokerless as bl
from brokerless.io import remote, storage
from brokerless.io.remote import Object


@pytest.fixture
def store(request):
    """Return a store in memory and the URL of a prefix in it that no other test has."""
    memory = fsspec.filesystem("memory")
    name = f"/{request.node.name.translate({ord('['): '-', ord(']'): None})}"
    yield memory, f"memory:/{name}"
    memory.rm(name, recursive=True) if memory.exists(name) else None


@pytest.fixture
def stored(store, golden):
    """Return a function that puts a golden log directory into the store and returns its URL."""
    memory, url = store

    def put(name):
        memory.put(str(golden / "logs" / name), url, recursive=True)
        return url

    return put


@pytest.fixture
def requests(store, monkeypatch):
    """Return the requests that were made, as they come."""
    memory, made = store[0], []
    for name in ("ls", "cat_file", "info"):
        ask = getattr(type(memory), name)

        def asked(self, path, *arguments, ask=ask, name=name, **options):
            made.append((name, path, options.get("start"), options.get("end")))
            return ask(self, path, *arguments, **options)

        monkeypatch.setattr(type(memory), name, asked)
    return made


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://bucket/a/", "s3://bucket/a"),
        ("S3A://bucket//a", "s3://bucket/a"),
        ("memory://a", "memory://a"),
        ("memory:///a//b/", "memory:///a/b"),
    ],
)
def test_a_url_has_one_form(url, expected):
    assert storage.absolute(url) == expected


def test_names_behind_a_prefix(store):
    memory, url = store
    memory.pipe_file(f"{url}/a/b/c", b"123")
    memory.pipe_file(f"{url}/a/d", b"12345")
    assert remote.list_directory(f"{url}/a") == {"b": True, "d": False}
    assert storage.list_subdirectories(f"{url}/a") == ["b"]
    assert [storage.is_directory(f"{url}/a{rest}") for rest in ("", "/b", "/d", "/x")] == [True, True, False, False]
    assert [storage.exists(f"{url}/a{rest}") for rest in ("", "/b/c", "/x")] == [True, True, False]
    assert storage.size(f"{url}/a/d") == 5
    assert storage.read_all(f"{url}/a/d") == b"12345"
    with pytest.raises(FileNotFoundError, match="memory:"):
        storage.list_directory(f"{url}/x")
    with pytest.raises(FileNotFoundError, match="memory:"):
        storage.File(f"{url}/x")
    with pytest.raises(IsADirectoryError):
        storage.File(f"{url}/a")
    with pytest.raises(NotADirectoryError):
        storage.list_directory(f"{url}/a/d")


def test_ranges_are_read_and_never_the_whole(store, requests, monkeypatch):
    monkeypatch.setattr(remote, "_AHEAD", 1000)
    monkeypatch.setattr(remote, "_LEAST", 10)
    memory, url = store
    content = bytes(i % 251 for i in range(5000))
    memory.pipe_file(f"{url}/x", content)
    file = Object(f"{url}/x")
    requests.clear()

    def read(position, length):
        buffer = memoryview(bytearray(length))
        return bytes(buffer[: file.read_into(position, buffer)])

    assert read(100, 50) == content[100:150]
    assert read(150, 50) == content[150:200]
    assert read(200, 900) == content[200:1100]
    assert read(1100, 100) == content[1100:1200]
    assert read(4000, 3) == content[4000:4003]
    assert read(4990, 100) == content[4990:]
    assert read(5000, 10) == read(9000, 1) == b""
    ranges = [(start, end) for name, _, start, end in requests if name == "cat_file"]
    assert ranges == [(100, 150), (150, 1150), (1150, 2150), (4000, 4010), (4990, 5000)]


@pytest.mark.parametrize("name", ["kafka-4.1", "kafka-2.8-v1"])
def test_a_log_directory_reads_as_on_a_disk(stored, golden, name, tmp_path):
    url = stored(name)
    local = tmp_path / "data"
    shutil.copytree(golden / "logs" / name, local)
    found, expected = bl.LogDirs(url), bl.LogDirs(local)
    assert found.topics() == expected.topics()
    assert found.roots[0].cluster_id == expected.roots[0].cluster_id
    for log in expected.logs():
        there = found.log(log.topic, log.partition)
        assert (there.log_start_offset, there.log_end_offset) == (log.log_start_offset, log.log_end_offset)
        for level in ("read_uncommitted", "read_committed"):
            rows = [batch.to_pylist() for batch in there.read(isolation_level=level)]
            assert rows == [batch.to_pylist() for batch in log.read(isolation_level=level)]


def test_one_partition_and_one_file(stored, run):
    url = stored("kafka-4.1")
    log = bl.Log(f"{url}/headers-0")
    assert (log.topic, log.partition) == ("headers", 0)
    whole = run("read", f"{url}/headers-0")
    assert whole.code == 0
    assert len(whole.out.splitlines()) == sum(rows.num_rows for rows in log.read())
    assert run("ls", url, "--topic", "headers").code == 0
    assert run("dump", log.segments[0].path).code == 0


def test_listing_is_one_request_a_prefix(stored, requests):
    url = stored("kafka-4.1")
    requests.clear()
    log_dir = bl.LogDirs(url)
    logs = log_dir.logs()
    for log in logs:
        assert log.segments
    assert len([path for name, path, *_ in requests if name == "ls"]) <= len(logs) + 3


def test_nothing_is_written_there(stored):
    url = stored("kafka-4.1")
    for write in (bl.open_log_dir, bl.create_log_dir, lambda url: bl.Producer(url, "t")):
        with pytest.raises(ValueError, match="in an object store, which brokerless only reads"):
            write(url)


def test_a_store_that_is_not_known_is_named():
    with pytest.raises(ValueError, match="cannot read nowhere://"):
        bl.LogDirs("nowhere://bucket/data")


def test_what_a_store_says_of_itself_is_an_error_of_the_file(store, monkeypatch):
    memory, url = store
    memory.pipe_file(f"{url}/x", b"123")
    file = storage.File(f"{url}/x")

    def breaks(*_, **__):
        raise RuntimeError("endpoint gone")

    monkeypatch.setattr(type(memory), "cat_file", breaks)
    with pytest.raises(OSError, match="RuntimeError: endpoint gone") as caught:
        file.read(0, 3)
    assert caught.value.filename == f"{url}/x"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError("Access Denied"), "[Errno 13] Access Denied: "),
        (FileNotFoundError("The specified bucket does not exist"), "[Errno 2] The specified bucket does not exist: "),
        (FileNotFoundError(), "[Errno 2] No such file or directory: "),
    ],
    ids=["refused", "no-bucket", "no-object"],
)
def test_an_error_of_a_sentence_alone_says_it(store, monkeypatch, error, said):
    """As stores raise them, without a number."""

    def refuses(*_, **__):
        raise error

    monkeypatch.setattr(type(store[0]), "info", refuses)
    with pytest.raises(type(error)) as caught:
        storage.File(f"{store[1]}/a")
    assert str(caught.value) == f"{said}'{store[1]}/a'"


def test_an_object_that_is_named_like_a_partition_hides_none(stored, store, monkeypatch):
    """Some tools put one there; in a listing either may come first."""
    url = stored("kafka-4.1")
    expected = [log.name for log in bl.LogDirs(url).logs()]
    list_, is_directory = type(store[0]).ls, type(store[0]).isdir
    path = store[0]._strip_protocol(f"{url}/headers-0")

    def listed(self, name, **options):
        found = list_(self, name, **options)
        return [*found, {"name": path, "size": 0, "type": "file"}] if path.rpartition("/")[0] == name else found

    monkeypatch.setattr(type(store[0]), "ls", listed)
    monkeypatch.setattr(type(store[0]), "isdir", lambda self, name: name != path and is_directory(self, name))
    assert [log.name for log in bl.LogDirs(url).logs()] == expected
    assert bl.LogDirs(url).log("headers", 0).log_end_offset


def test_a_partition_is_looked_at_anew_with_its_checkpoints(stored, store, monkeypatch):
    """Whoever listed the directory around it before, in the same process."""
    url, listings = stored("kafka-4.1"), {}
    ls = type(store[0]).ls

    def cached(self, name, refresh=True, **options):
        if refresh or name not in listings:
            listings[name] = ls(self, name, **options)
        return listings[name]

    def info(self, name):
        for entry in cached(self, name.rpartition("/")[0], refresh=False):
            if entry["name"] == name:
                return entry
        raise FileNotFoundError(name)

    monkeypatch.setattr(type(store[0]), "ls", cached)
    monkeypatch.setattr(type(store[0]), "info", info)
    checkpoint = store[0]._strip_protocol(f"{url}/log-start-offset-checkpoint")
    if store[0].exists(checkpoint):
        store[0].rm(checkpoint)
    bl.LogDirs(url).logs()
    store[0].pipe(checkpoint, b"0\n1\nheaders 0 3\n")
    assert bl.Log(f"{url}/headers-0").log_start_offset == 3


@pytest.mark.parametrize(
    ("missing", "url", "extra"),
    [("fsspec", "s3://b/data", "s3"), ("s3fs", "s3://b/data", "s3"), ("fsspec", "gs://b/data", "remote")],
)
def test_what_a_store_needs_is_named(missing, url, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    remote._store.cache_clear()
    with pytest.raises(ValueError, match=rf"cannot read {url[:2]}://.* pip install 'brokerless\[{extra}\]'$"):
        bl.LogDirs(url)
