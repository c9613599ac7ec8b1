"""Fetch real Kafka from Maven Central, and all else that the conformance tests run, into `build/conformance`.

What is fetched and built is the same for every clone, so it is kept in the cache of builds (`tools/kept.py`), and
`build/conformance` is a link to it. A new release of Kafka goes into `BROKERS`.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]
from kept import cache, drop, key, said  # noqa: E402 - the build's tools are no package

AT = ROOT / "build" / "conformance"
# What most tests run on; the newest release; the oldest.
DEFAULT, NEWEST, OLDEST = "4.1.0", "4.4.0", "2.8.2"
# The releases of which only the broker is fetched. The default and the oldest also have their tools; the oldest is
# the last that writes formats 0 and 1.
BROKERS = ("3.9.2", "4.0.2", NEWEST)
# Of these only the definitions of metadata records that later releases lack: `tools/messages` reads them.
METADATA = ("3.2.3", "3.4.1")
# So many states of this, of some 600 MB each, are kept: those that were used last.
MOST = 3


def maven(*arguments, of=None):
    """Run Maven on one of the projects here."""
    project = ["-f", str(HERE / of / "pom.xml")] if of else []
    done = subprocess.run(["mvn", "-q", "-B", *project, *arguments], check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"mvn {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")


def copy(to, *arguments, of):
    """Copy the libraries that a project depends on."""
    maven("dependency:copy-dependencies", f"-DoutputDirectory={to}", *arguments, of=of)


def fetch(to):
    """Fetch and build all but the archives of classes into a directory."""
    old = ["-Dkafka.version=" + OLDEST, "-Djackson.version=2.10.5.1"]
    no_log4j = "-DexcludeArtifactIds=slf4j-log4j12"
    copy(to / "s3/lib", of="s3")
    copy(to / "connector/lib", "-DincludeScope=runtime", of="connector")
    copy(to / "tables/lib", "-DincludeScope=runtime", of="tables")
    copy(to / DEFAULT / "lib", no_log4j, "compile", f"-Dbuild={to / 'java'}", of="java")
    copy(to / DEFAULT / "lib", of="tiered")
    copy(to / OLDEST / "lib", no_log4j, *old, of="java")
    for version in BROKERS:
        copy(to / version / "lib", f"-Dkafka.version={version}", of="broker")
    for place, artifact in (
        (f"{NEWEST}/lib", f"kafka-tools:{NEWEST}"),
        (f"{DEFAULT}/lib", f"connect-file:{DEFAULT}"),
        *((f"messages/{version}", f"kafka-metadata:{version}") for version in METADATA),
    ):
        maven("dependency:copy", f"-Dartifact=org.apache.kafka:{artifact}", f"-DoutputDirectory={to / place}")
    subprocess.run(["jar", "--create", "--file", to / "client.jar", "-C", to / "java/classes", "."], check=True)
    if shutil.which("go"):
        build = ["go", "build", "-trimpath", "-o", to / "franz-go", "."]
        subprocess.run(build, cwd=HERE / "go", env=os.environ | {"CGO_ENABLED": "0"}, check=True)


def archive(to):
    """Archive the classes that a broker of each release loads."""
    import kafka

    kafka.HAS_ARCHIVES = False
    for version in (OLDEST, *BROKERS, DEFAULT):
        place = to / "archiving" / version
        place.mkdir(parents=True, exist_ok=True)
        options = [f"-XX:ArchiveClassesAtExit={kafka.archive(version)}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
        broker = kafka.OldBroker if version == OLDEST else kafka.Broker
        release = {} if version == OLDEST else {"version": version}
        with broker(place / "data", log=place / "log", options=options, **release):
            pass
    shutil.rmtree(to / "archiving")


def main():
    """Fetch what is not there yet."""
    home = cache()
    projects = ("broker", "connector", "go", "java", "s3", "tables", "tiered")
    inputs = [(HERE / project).relative_to(ROOT).as_posix() for project in projects]
    facts = [said("java", "--version"), said("go", "version")]
    own = Path(__file__).resolve().relative_to(ROOT).as_posix()
    to = home / "conformance" / key([*inputs, own], facts) if home else AT
    if AT.is_symlink():
        AT.unlink()
    try:
        to.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.stderr.write(f"note: nothing is kept: {error}\n")
        to = AT
        to.mkdir(parents=True, exist_ok=True)
    if to != AT:
        shutil.rmtree(AT, ignore_errors=True)
        AT.parent.mkdir(exist_ok=True)
        AT.symlink_to(to)
        os.utime(to)
        drop(to.parent, MOST)
    # One clone fetches, others wait for it.
    with (to / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (to / "complete").exists():
            fetch(to)
            archive(to)
            (to / "complete").touch()


if __name__ == "__main__":
    main()
