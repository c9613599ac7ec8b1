"""Exit codes: each verb's help names its own, and each of them is one that it ends with."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from brokerless.cli.exit_codes import DAMAGE, DONE, FAILURE, MEANINGS, WARNINGS, named_in
from support.broken_directories import BROKEN, healthy
from support.damage import flip_bit
from support.verbs import verbs

REGISTRY = Path(__file__).parents[3] / "examples/registry"
REWRITE = ("DIR", "--topic", "t", "--dry-run")
# Of each verb a command, and what to harm for each of its codes but that for a verb that cannot run. A directory of
# the cluster's own topics is a real broker's; of it, each log is harmed, or Kafka's own topics are removed.
COMMANDS = {
    "ls": (("DIR",), {DAMAGE: "segment-cut"}),
    "read": (("DIR",), {DAMAGE: "batch-crc"}),
    "find": (("DIR", "--any", "v"), {DAMAGE: "batch-crc"}),
    "sql": (("DIR", "-c", "select count(value) from t"), {DAMAGE: "batch-crc"}),
    "offsets": (("DIR", "--timestamp", "1"), {DAMAGE: "segment-missing"}),
    "dump": (("DIR/t-0",), {DAMAGE: "batch-crc"}),
    "producers": (("DIR",), {DAMAGE: "checkpoint-reset"}),
    "check": (("DIR",), {DAMAGE: "batch-crc", WARNINGS: "snapshot-differs"}),
    "report": (("DIR", "--output", "NEW"), {DAMAGE: "batch-crc", WARNINGS: "snapshot-differs"}),
    "recover": (("DIR", "--dry-run"), {DAMAGE: "segment-cut"}),
    "repair": (("DIR", "--dry-run"), {DAMAGE: "file-unpadded", WARNINGS: "batch-crc"}),
    "rescue": (("DIR", "--dry-run"), {DAMAGE: "file-unpadded", WARNINGS: "batch-crc"}),
    "compact": ((*REWRITE, "--roll", "--drop-null-keys", "--cleanup-policy", "compact"), {DAMAGE: "batch-crc"}),
    "retain": ((*REWRITE, "--before-offset", "5"), {DAMAGE: "segment-cut"}),
    "convert": ((*REWRITE, "--compression", "zstd"), {DAMAGE: "batch-crc"}),
    "erase": ((*REWRITE, "--key", "x"), {DAMAGE: "batch-crc"}),
    "truncate": ((*REWRITE, "--offset", "5"), {DAMAGE: "segment-cut"}),
    "produce": (("DIR", "--topic", "t", "--input", "ROWS"), {DAMAGE: "segment-cut"}),
    "finding": (("batch-crc",), {}),
}
# Verbs of two words that take more than a directory.
LONG = {
    ("cluster", "diff"): ("DIR", "DIR"),
    ("schemas", "show"): ("3", "DIR"),
    ("schemas", "diff"): ("orders-value", "1", "2", "DIR"),
}
OF_A_CLUSTER = {verb: {DAMAGE: "all", WARNINGS: "no coordinator"} for verb in ("groups", "transactions")}

VERBS = dict(verbs())
HERE = [name for name in VERBS if name[0] != "spark" and name != ("serve",)]


@pytest.mark.parametrize("name", VERBS, ids=" ".join)
def test_the_help_of_each_verb_names_its_exit_codes_in_a_line(run, name):
    line = VERBS[name].epilog
    assert re.fullmatch(r"Exit codes: \d [^;]+(; \d [^;]+)*\.", line or "")
    shown = " ".join(run(*name, "--help").out.split())
    assert line in shown
    assert shown.lower().count("exit code") == 1
    assert {FAILURE} < named_in(line) | {DONE} <= MEANINGS.keys()


@pytest.fixture(scope="module")
def directory(tmp_path_factory, golden):
    """Return a function that makes a directory, sound or harmed, for a verb."""
    made = {}

    def make(verb, harm):
        is_registry = verb[0] == "schemas"
        is_cluster = verb[0] in OF_A_CLUSTER or verb[0] == "cluster" or is_registry
        key = is_cluster, is_registry, harm
        if key not in made:
            made[key] = tmp_path_factory.mktemp("exits") / "data"
            if is_cluster:
                shutil.copytree(REGISTRY if is_registry else golden / "logs/kafka-4.1", made[key])
                for path in made[key].glob("__[ct]*_*") if harm == "no coordinator" else ():
                    shutil.rmtree(path)
                for path in [*made[key].rglob("*.log"), *made[key].rglob("*.checkpoint")] if harm == "all" else ():
                    if path.stat().st_size > 70:
                        flip_bit(path, 65)
            else:
                healthy(made[key])
                if harm:
                    BROKEN[harm](made[key])
        return made[key]

    return make


@pytest.mark.parametrize(
    ("name", "code"),
    [(name, code) for name in HERE for code in sorted(named_in(VERBS[name].epilog))],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else str(one),
)
def test_a_verb_ends_with_each_code_that_its_help_names(run, tmp_path, directory, name, code):
    """A script that waits for a code which never comes takes damage for success."""
    if code == FAILURE:
        assert run(*name, "--no-such-option").code == FAILURE
        return
    words, harms = COMMANDS.get(
        name[0],
        (LONG.get(name, ("DIR",)), OF_A_CLUSTER.get(name[0], {DAMAGE: "all"})),
    )
    assert named_in(VERBS[name].epilog) == {DONE, FAILURE, *harms}
    data = directory(name, harms.get(code))
    if name == ("produce",):
        data = shutil.copytree(data, tmp_path / "data")
    (tmp_path / "rows.json").write_text('{"value":"x"}\n')
    places = {"DIR": str(data), "NEW": str(tmp_path / "new.html"), "ROWS": str(tmp_path / "rows.json")}
    found = run(*name, *(re.sub("DIR|NEW|ROWS", lambda place: places[place[0]], word) for word in words))
    assert found.code == code, found.err


def test_serve_ends_with_each_code_that_its_help_names(tmp_path):
    """Nobody but a signal ends a server that could start."""
    assert named_in(VERBS["serve",].epilog) == {DAMAGE, FAILURE}
    healthy(tmp_path / "data")
    other = shutil.copytree(tmp_path / "data", tmp_path / "other")
    ids = (other / "meta.properties").read_text()
    (other / "meta.properties").write_text(
        re.sub("directory.id=.*", "directory.id=AAAAAAAAAAAAAAAAAAAAAQ", re.sub("node.id=.*", "node.id=7", ids))
    )
    serve = [sys.executable, "-m", "brokerless", "serve", tmp_path / "data", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(serve, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr.readline().startswith("serving ")
        os.kill(server.pid, signal.SIGINT)
        assert server.wait(20) == 130
    BROKEN["epochs-damaged"](tmp_path / "data")
    assert subprocess.run([*serve, other], timeout=60, check=False).returncode == DAMAGE
    assert subprocess.run([*serve, tmp_path / "none"], timeout=60, check=False).returncode == FAILURE


@pytest.mark.parametrize(("mode", "may"), [(0o644, "read"), (0o600, None)])
def test_serve_warns_of_passwords_that_others_may_read(tmp_path, mode, may):
    healthy(tmp_path / "data")
    users = tmp_path / "users"
    users.write_text("ann:secret\n")
    users.chmod(mode)
    words = ["serve", tmp_path / "data", "--listen", "127.0.0.1:0", "--users", users]
    with subprocess.Popen([sys.executable, "-m", "brokerless", *words], stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr.readline().startswith("serving ")
        if may:
            warning = (
                f"warning: other users of this machine may {may} the passwords in {users}: run `chmod 600 {users}`"
            )
            assert server.stderr.readline() == f"{warning}\n"
        os.kill(server.pid, signal.SIGINT)
        assert "warning" not in server.communicate(timeout=20)[1]


@pytest.mark.parametrize("name", ["check", "report", "repair", "compact", "retain", "convert", "erase"])
def test_a_verb_on_spark_ends_with_the_codes_of_the_verb(name):
    assert VERBS["spark", name].epilog == VERBS[name,].epilog
