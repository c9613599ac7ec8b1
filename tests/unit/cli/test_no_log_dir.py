"""A path that is no log directory is refused, and the message names the log directories in it."""

import shutil

import pytest

import brokerless as bl
from support.broken_directories import healthy

VERBS = (
    ("ls",),
    ("check",),
    ("cluster", "topics"),
    ("groups",),
    ("transactions",),
    ("producers",),
    ("read",),
    ("offsets", "--timestamp", "latest"),
    ("repair", "--dry-run"),
    ("recover", "--dry-run"),
    ("rescue", "--dry-run"),
    ("report", "--output", "page.html"),
    ("compact", "--dry-run"),
    ("retain", "--dry-run", "--before-offset", "3"),
    ("convert", "--dry-run", "--compression", "zstd"),
    ("erase", "--dry-run", "--key", "a"),
    ("truncate", "--offset", "3", "--output", "to"),
    ("produce", "--topic", "t", "--input", "/dev/null"),
    ("serve",),
)


@pytest.fixture
def volume(tmp_path):
    """The root of a volume, with a log directory in it, and another one whose name is that of a partition."""
    (tmp_path / "pvc/lost+found").mkdir(parents=True)
    (tmp_path / "pvc/backup/old-1").mkdir(parents=True)
    healthy(tmp_path / "pvc/kafka-log0")
    shutil.copytree(tmp_path / "pvc/kafka-log0", tmp_path / "pvc/disk-1")
    return tmp_path / "pvc"


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_each_verb_names_the_log_directories_one_level_below(volume, run, verb):
    """Otherwise `disk-1` is taken for a partition, and a volume's root for an empty log directory."""
    said = run(*verb, volume)
    assert said.code == 2
    assert f"; {volume}/disk-1, {volume}/kafka-log0 are log directories" in said.err
    assert not (volume.parent / "to").exists()


@pytest.mark.parametrize("is_dry", [True, False])
@pytest.mark.parametrize("names", [(), ("photo.jpg",), ("lost+found/",), ("backup/old-1/",), ("sub/deep/t-0/",)])
def test_a_rescue_of_any_folder_makes_no_cluster(tmp_path, run, names, is_dry):
    (tmp_path / "junk").mkdir()
    for name in names:
        path = tmp_path / "junk" / name
        path.mkdir(parents=True) if name.endswith("/") else path.touch()
    healthy(tmp_path / "data")
    to = ("--dry-run",) if is_dry else ("--output", tmp_path / "new")
    for disks in ((tmp_path / "junk",), (tmp_path / "data", tmp_path / "junk")):
        said = run("rescue", *disks, *to)
        assert said.code == 2
        assert said.err.startswith(f"brokerless: {tmp_path}/junk is not a log directory: it has none of a broker's own")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_a_name_alone_makes_no_partition(tmp_path, run, verb):
    """A check of /etc once found nothing wrong with it, for its `dbus-1` and `polkit-1`."""
    for name in ("dbus-1/system.d", "polkit-1/rules.d"):
        (tmp_path / "etc" / name).mkdir(parents=True)
    said = run(*verb, tmp_path / "etc")
    assert (said.code, said.out) == (2, "")


def test_partitions_without_a_brokers_own_files_are_a_log_directory(tmp_path):
    healthy(tmp_path / "data")
    (tmp_path / "copies").mkdir()
    shutil.copytree(tmp_path / "data/t-0", tmp_path / "copies/t-0")
    assert bl.rescue(tmp_path / "copies", dry_run=True).topics == {"t": 1}
    assert [log.name for log in bl.LogDirs(tmp_path / "copies").logs()] == ["t-0"]


def test_a_partitions_directory_is_read_wherever_it_is(tmp_path, run):
    healthy(tmp_path / "data")
    for verb in (("ls",), ("check",), ("read", "--limit", "1"), ("repair", "--dry-run")):
        assert run(*verb, tmp_path / "data/t-0").code == 0


STATE = {
    "topics": (("cluster", "topics"), "__cluster_metadata-0"),
    "configs": (("cluster", "configs"), "__cluster_metadata-0"),
    "diff": (("cluster", "diff", "--since", "offset:0"), "__cluster_metadata-0"),
    "groups": (("groups",), "partition of __consumer_offsets"),
    "members": (("groups", "--members", "--history"), "partition of __consumer_offsets"),
    "offsets": (("groups", "--offsets"), "partition of __consumer_offsets"),
    "past": (("transactions", "--as-of", "2024-05-01"), "partition of __transaction_state"),
    "history": (("transactions", "--history"), "partition of __transaction_state"),
}


@pytest.mark.parametrize("name", ["", "/00000000000000000000.log"])
@pytest.mark.parametrize("verb", STATE)
def test_a_partition_that_says_nothing_of_a_state_is_refused_and_its_log_directory_named(tmp_path, run, verb, name):
    """Otherwise an empty table seems to be all that a cluster knows."""
    data = healthy(tmp_path / "data")
    words, what = STATE[verb]
    said = run(*words, f"{data}/t-0{name}")
    assert (said.code, said.out) == (2, "")
    assert f"no {what} in {data}/t-0{name}; {data} is the log directory around" in said.err
    # A copy of a partition has none around.
    shutil.copytree(data / "t-0", tmp_path / "copies/t-0")
    said = run(*words, f"{tmp_path}/copies/t-0{name}")
    assert (said.code, said.out) == (2, "")
    assert f"no {what} in {tmp_path}/copies/t-0{name}" in said.err
    assert "around" not in said.err


@pytest.mark.parametrize("path", ["empty", "photo.jpg"])
@pytest.mark.parametrize(
    "verb",
    [words for words, _ in STATE.values()]
    + [("ls",), ("check",), ("producers",), ("transactions",), ("report", "--output", "page.html")],
    ids=" ".join,
)
def test_an_empty_folder_or_a_file_of_another_kind_is_refused(tmp_path, run, verb, path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "photo.jpg").write_bytes(b"x")
    said = run(*verb, tmp_path / path)
    assert (said.code, said.out) == (2, "")
    assert f"'{tmp_path}/{path}' is " in said.err
