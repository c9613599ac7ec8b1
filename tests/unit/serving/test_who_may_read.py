"""A server that asks for a password gives nothing without one, and says who read what."""

import json
import os
import re
import socket
import ssl
import struct
import tempfile
import urllib.request
from pathlib import Path

import confluent_kafka
import pytest
import trustme
from aiokafka.conn import ScramAuthenticator
from aiokafka.errors import KafkaError

import brokerless as bl
from support.consumer import consume
from support.document_code import blocks

METADATA, HANDSHAKE, AUTHENTICATE = 3, 17, 36
WRONG_PASSWORD = 58
EXPECTED = [(0, 0, b"a"), (0, 1, b"b")]


@pytest.fixture
def data(tmp_path):
    with bl.create_log_dir(tmp_path / "data") as log_dir:
        log_dir.create_topic("t")
    with bl.Producer(tmp_path / "data", "t") as producer:
        producer.send([{"value": b"a"}, {"value": b"b"}])
    return tmp_path / "data"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    path = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    own = authority.issue_cert("127.0.0.1")
    own.cert_chain_pems[0].write_to_path(path / "certificate.pem")
    own.private_key_pem.write_to_path(path / "key.pem")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    authority.cert_pem.write_to_path(path / "authority.pem")
    return (path / "certificate.pem", path / "key.pem"), context


def credentials(mechanism, password="secret", protocol="SASL_PLAINTEXT"):
    return {
        "security_protocol": protocol,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "ann",
        "sasl_plain_password": password,
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_reads_and_others_do_not(data, mechanism):
    with bl.serve(data, users={"ann": "secret", "bob": "other"}) as address:
        assert consume(address, "t", **credentials(mechanism)) == EXPECTED
        with pytest.raises(KafkaError, match="Authentication failed: invalid user or password"):
            consume(address, "t", **credentials(mechanism, "other"))
        with pytest.raises(KafkaError):
            consume(address, "t")


def test_a_client_logs_in_with_the_settings_of_the_guide(data, certificates):
    (block,) = [block for block in blocks("docs/guides/serving.md", "sh") if "SASL_SSL" in block]
    settings = dict(re.findall(r"-X (\S+?)=(\S+)", block))
    files, _ = certificates
    with bl.serve(data, users={"auditor": "secret"}, tls=files) as address:
        authority = str(files[0].with_name(settings["ssl.ca.location"]))
        own = {"bootstrap.servers": address, "ssl.ca.location": authority, "group.id": "g", "log_level": 0}
        consumer = confluent_kafka.Consumer({**settings, **own, "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        records = [record.value() for record in consumer.consume(2, 20)]
        consumer.close()
    assert records == [b"a", b"b"]


def test_encrypted_records_are_the_same(data, certificates):
    files, context = certificates
    with bl.serve(data, tls=files) as address:
        assert consume(address, "t", security_protocol="SSL", ssl_context=context) == EXPECTED
        with pytest.raises(KafkaError):
            consume(address, "t")


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_file_that_is_on_a_disk_alone_is_sent_whole(certificates, is_encrypted):
    """It is read on another thread first, a part at a time."""
    files, context = certificates
    options = {"security_protocol": "SSL", "ssl_context": context} if is_encrypted else {}
    values = [bytes([number]) * 100_000 for number in range(50)]
    # Where tests have their files, there may be no disk.
    with tempfile.TemporaryDirectory(dir=Path(__file__).parents[3]) as directory:
        data = Path(directory) / "data"
        with bl.Producer(data, "t", batch_size=300_000) as producer:
            producer.send([{"value": value} for value in values])
        (segment,) = (data / "t-0").glob("*.log")
        with segment.open("rb") as file, bl.serve(data, tls=files if is_encrypted else None) as address:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            try:
                os.preadv(file.fileno(), [bytearray(1)], 3_000_000, os.RWF_NOWAIT)
            except BlockingIOError:
                assert consume(address, "t", **options) == [(0, at, value) for at, value in enumerate(values)]
            except OSError as error:
                pytest.skip(f"NOT TESTED: this file system does not tell what is in the page cache: {error}")
            else:
                pytest.skip("NOT TESTED: this file system keeps its files in the page cache")


def test_a_password_is_taken_over_an_encrypted_connection(data, certificates):
    files, context = certificates
    with bl.serve(data, tls=files, users={"ann": "secret"}) as address:
        options = credentials("PLAIN", protocol="SASL_SSL")
        assert consume(address, "t", ssl_context=context, **options) == EXPECTED


def test_users_are_read_from_a_file(data, tmp_path):
    (tmp_path / "users").write_text("# readers\nann:secret\nbob:a:b\n")
    with bl.serve(data, users=tmp_path / "users") as address:
        assert consume(address, "t", **credentials("PLAIN")) == EXPECTED


@pytest.mark.parametrize(
    ("content", "reason"),
    [("ann\n", "line 1 is not user:password"), ("", "no user"), ("a:1\na:2\n", "'a' is listed twice")],
)
def test_a_file_without_users_is_refused(data, tmp_path, content, reason):
    """A server that asks nobody, since a file was empty, would show all."""
    (tmp_path / "users").write_text(content)
    with pytest.raises(ValueError, match=reason), bl.serve(data, users=tmp_path / "users"):
        pass


def test_a_key_that_is_none_is_refused(data, certificates):
    (certificate, _), _ = certificates
    with pytest.raises(OSError, match=r"certificate\.pem"), bl.serve(data, tls=(certificate, certificate)):
        pass


@pytest.mark.slow
def test_a_log_says_who_read_what(data, tmp_path):
    log = tmp_path / "reads.jsonl"
    with bl.serve(data, users={"ann": "secret"}, read_log=log) as address:
        consume(address, "t", client_id="of ann", **credentials("SCRAM-SHA-256"))
    first, *_ = map(json.loads, log.read_text().splitlines())
    assert (first["user"], first["client_id"]) == ("ann", "of ann")
    assert (first["topic"], first["partition"], first["offset"]) == ("t", 0, 0)
    assert first["bytes"] > 0
    assert first["client"].startswith("127.0.0.1:")


def test_nobody_reads_what_cannot_be_logged(data):
    with bl.serve(data, read_log="/dev/full") as address, pytest.raises(KafkaError, match="do not come"):
        consume(address, "t", request_timeout_ms=1000, timeout=3)


def test_counters_are_shown_as_prometheus_reads_them(data):
    with socket.create_server(("127.0.0.1", 0)) as free:
        at = f"127.0.0.1:{free.getsockname()[1]}"
    with bl.serve(data, metrics=at) as address:
        consume(address, "t")
        with urllib.request.urlopen(f"http://{at}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert int(values['brokerless_requests_total{api="Fetch"}']) > 0
    assert int(values["brokerless_record_bytes_total"]) > 0
    assert "# TYPE brokerless_connections gauge" in lines


def asked(api, version, body):
    header = struct.pack(">hhih", api, version, 7, -1)
    return struct.pack(">i", len(header) + len(body)) + header + body


def named(mechanism):
    return struct.pack(">h", len(mechanism)) + mechanism.encode()


def connected(address):
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=10)


def received(connection):
    """Return what comes behind a length; None: the connection is closed."""
    try:
        length = connection.recv(4, socket.MSG_WAITALL)
        return connection.recv(struct.unpack(">i", length)[0], socket.MSG_WAITALL) if length else None
    except ConnectionResetError:
        return None


def answered(connection):
    """Return the body of an answer."""
    found = received(connection)
    return found and found[4:]


def token(text):
    return asked(AUTHENTICATE, 0, struct.pack(">i", len(text)) + text)


def test_a_connection_with_a_wrong_password_is_closed(data):
    """A client that may try again and again finds the password."""
    handshake = asked(HANDSHAKE, 1, named("PLAIN"))
    with bl.serve(data, users={"ann": "secret"}) as address:
        for text, error in ((b"\0ann\0secret", 0), (b"\0ann\0other", WRONG_PASSWORD)):
            with connected(address) as connection:
                connection.sendall(handshake)
                assert answered(connection)[:2] == b"\0\0"
                connection.sendall(token(text))
                assert struct.unpack_from(">h", answered(connection))[0] == error
                connection.sendall(asked(METADATA, 1, struct.pack(">i", -1)))
                assert (answered(connection) is not None) == (error == 0)


def bare_tokens(mechanism, password):
    """Return what takes the server's bytes, None at first, and returns the next ones for it; None: all are sent."""
    if mechanism == "PLAIN":
        tokens = iter([f"\0ann\0{password}".encode(), None])
        return lambda _: next(tokens)
    names = {"sasl_plain_username": "ann", "sasl_plain_password": password, "sasl_mechanism": mechanism}
    steps = ScramAuthenticator(loop=None, **names)
    return lambda said: (steps._step(said) or [None])[0]


@pytest.mark.parametrize("password", ["secret", "other"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_password_may_come_without_a_request(data, mechanism, password):
    """As kafka-python sends it up to 2.0: SaslHandshake 0, then bare bytes."""
    token = bare_tokens(mechanism, password)
    with bl.serve(data, users={"ann": "secret"}) as address, connected(address) as connection:
        connection.sendall(asked(HANDSHAKE, 0, named(mechanism)))
        assert answered(connection)[:2] == b"\0\0"
        said = None
        while (text := token(said)) is not None:
            connection.sendall(struct.pack(">i", len(text)) + text)
            if (said := received(connection)) is None:
                break
        connection.sendall(asked(METADATA, 1, struct.pack(">i", -1)))
        assert (answered(connection) is not None) == (password == "secret")


@pytest.mark.parametrize("mechanism", ["PLAIN", "GSSAPI"])
def test_a_request_behind_a_bare_handshake_is_not_answered(data, mechanism):
    """A client that sends it at once could read before its password is known."""
    metadata = asked(METADATA, 1, struct.pack(">i", -1))
    with bl.serve(data, users={"ann": "secret"}) as address, connected(address) as connection:
        connection.sendall(asked(HANDSHAKE, 0, named(mechanism)) + metadata)
        error = struct.unpack_from(">h", answered(connection))[0]
        assert (error == 0) == (mechanism == "PLAIN")
        assert received(connection) is None


@pytest.mark.parametrize("request_", ["metadata", "a token before a handshake"])
def test_nothing_is_answered_before_a_password(data, request_):
    first = asked(METADATA, 1, struct.pack(">i", -1)) if request_ == "metadata" else token(b"\0ann\0secret")
    with bl.serve(data, users={"ann": "secret"}) as address, connected(address) as connection:
        connection.sendall(first)
        assert answered(connection) is None
