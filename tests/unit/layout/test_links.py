"""Links that somebody put into a log directory: none of them leads a verb out of it, and no secret into a message."""

import os
import shutil

import pytest

import brokerless as bl
from brokerless.layout import commit_journal, lost_offsets, restored_topics, streaming_epochs
from brokerless.log_dir import transactional_ids
from support.broken_directories import healthy

SECRET = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU=\n"
SMALL_FILES = (
    *("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"),
    *("cleaner-offset-checkpoint", "meta.properties", "t-0/partition.metadata", "t-0/leader-epoch-checkpoint"),
    *(streaming_epochs.FILE, restored_topics.FILE, transactional_ids.FILE, f"t-0/{lost_offsets.FILE}"),
    "bootstrap.checkpoint",
)


@pytest.fixture
def data(tmp_path):
    return healthy(tmp_path / "data")


@pytest.mark.parametrize("name", SMALL_FILES)
def test_no_message_quotes_what_a_small_file_links_to(data, tmp_path, run, name):
    secret = tmp_path / "id_ed25519"
    secret.write_text(SECRET)
    (data / name).unlink(missing_ok=True)
    (data / name).symlink_to(secret)
    for verb in ("check --deep", "ls", "recover --dry-run", "repair --dry-run", "rescue --dry-run"):
        name, *options = verb.split()
        said = run(name, data, *options)
        assert "PRIVATE" not in said.out + said.err, verb
    said = run("produce", data, "--topic", "t", "--input", os.devnull)
    assert "PRIVATE" not in said.out + said.err
    assert secret.read_text() == SECRET


def staged(data, tmp_path):
    """Make a journal elsewhere, with a partition and a checkpoint in it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.copytree(data / "t-0", outside / "t-0")
    (outside / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    staging = f"brokerless-0.{'0' * 32}-delete"
    (outside / "contents.json").write_text(
        f'{{"version": 1, "staging": "{staging}", "unique": "{"1" * 32}", "gone": []}}'
    )
    return outside


@pytest.mark.parametrize("verb", ["recover", "repair", "ls", "read"])
def test_a_journal_that_is_a_link_moves_nothing(data, tmp_path, run, verb):
    outside = staged(data, tmp_path)
    (data / commit_journal.NAME).symlink_to(outside)
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    options = {"repair": ["--in-place"], "read": ["--topic", "t"]}
    said = run(verb, data, *options.get(verb, []))
    assert said.code != 0
    assert "a link is in the place of a file or directory that brokerless creates" in said.err
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["t-0", "recovery-point-offset-checkpoint", "contents.json"])
def test_a_journal_with_a_link_in_it_moves_nothing(data, tmp_path, name):
    outside = staged(data, tmp_path)
    shutil.copytree(outside, data / commit_journal.NAME)
    place = data / commit_journal.NAME / name
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    place.symlink_to(outside / name)
    with pytest.raises(bl.errors.CorruptRecordError, match="a link is in the place"):
        bl.open_log_dir(data, recover=True)
    assert (data / "t-0").is_dir()
    assert (outside / name).exists()
