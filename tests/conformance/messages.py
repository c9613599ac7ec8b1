"""Random messages by the definitions in Kafka's jars, as Kafka's own classes write them."""

import base64
import json
import random
import subprocess
import uuid
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

from kafka import BUILD, NEWEST, SAY_LITTLE, java

OLDEST = "2.8.2"
TOOL = Path(__file__).parents[2] / "tools" / "messages"


def _tool():
    loader = SourceFileLoader("tool_messages", str(TOOL))
    module = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


messages = _tool()
_TEXTS = ("", "orders", "größe", "日本", 'a"b\\c\n\x00\x7f', "\U0001f40d", "x" * 300)


def written(release, asked):
    """Return what Kafka's classes make of messages: [(bytes, JSON)] for each (name, version, JSON)."""
    lines = (json.dumps({"name": name, "version": version, "json": value}) for name, version, value in asked)
    command = [*java(release), SAY_LITTLE, "Messages"]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return [(bytes.fromhex(answer["hex"]), answer["json"]) for answer in answers]


def definitions(release):
    """Return the definitions of a release by name, each as the tool that makes the core's tables reads it."""
    found = messages.read(BUILD / release / "lib")
    # The broker of 2.8 has no JSON converters of its own.
    has_converter = {source.name: not source.jar.startswith("kafka_2") or release > "3" for source in found}
    return {
        source.name: source
        for source in found
        if has_converter[source.name] and (source.topic or source.name in messages.EMBEDDED)
    }


def random_message(source, version, seed):
    """Return a random message of a version, as JSON."""
    chooser = random.Random(f"{seed} {source.name} {version}")
    common = {one["name"]: one["fields"] for one in source.definition.get("commonStructs", [])}
    return _struct(source.definition["fields"], version, common, chooser)


def _has(versions, version):
    first, last = messages.parsed(versions)
    return first <= version <= last


def _struct(fields, version, common, chooser):
    message = {}
    for one in fields:
        is_tagged = _has(one.get("taggedVersions"), version)
        if not _has(one.get("versions", one.get("taggedVersions")), version) or (is_tagged and chooser.random() < 0.3):
            continue
        is_null = _has(one.get("nullableVersions"), version) and chooser.random() < 0.3
        name = messages.camel_case(one["name"])
        message[name] = None if is_null else _value(one, one["type"], version, common, chooser)
    return message


def _value(one, kind, version, common, chooser):
    if kind.startswith("[]"):
        count = chooser.choice((0, 1, 2, 3, 130))
        if one.get("fields") or kind[2:] in common:
            count = min(count, 3)
        return [_value(one, kind[2:], version, common, chooser) for _ in range(count)]
    if kind in messages.INTEGERS:
        bits = int(kind.lstrip("uint"))
        low, high = (0, 2**bits - 1) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return chooser.choice((0, 1, -1 if low else 2, low, high, chooser.randint(low, high)))
    if kind == "bool":
        return chooser.random() < 0.5
    if kind == "float64":
        return chooser.choice((0.0, 1.5, -2.25e300, 1e-7, 1024.0))
    if kind == "string":
        return chooser.choice(_TEXTS)
    if kind == "bytes":
        return {"base64": base64.b64encode(chooser.randbytes(chooser.choice((0, 1, 5, 200)))).decode()}
    if kind == "uuid":
        chosen = chooser.choice((bytes(16), uuid.UUID(int=chooser.getrandbits(128)).bytes))
        return base64.urlsafe_b64encode(chosen).decode().rstrip("=")
    return _struct(one.get("fields") or common[kind], version, common, chooser)


def records(release, seeds):
    """Yield random records of internal topics: for each seed one of each type and version, as Kafka's classes write it.

    Each is a dict with `topic`, `key` and `value` (bytes or None), `type`, `name`, `version`, and `key_json` and
    `value_json` as Kafka's converters give them.
    """
    known = definitions(release)
    asked = []
    for source in known.values():
        if source.topic and not source.name.endswith("Value"):
            is_key = source.name.endswith("Key")
            # Up to 4.0, the version of a key is its type.
            for version in range(source.versions[0], source.versions[1] + 1):
                kind = source.definition.get("apiKey", version)
                value = known[f"{source.name[:-3]}Value"] if is_key else source
                versions = range(value.versions[0], value.versions[1] + 1) if is_key else [version]
                asked += [(source, version, kind, value, of, seed) for of in versions for seed in seeds]
    keys = [(source.name, version, random_message(source, version, seed)) for source, version, *_, seed in asked]
    values = [(value.name, version, random_message(value, version, seed)) for *_, value, version, seed in asked]
    answers = written(release, keys + values)
    for (source, _, kind, value, version, _), key, message in zip(
        asked, answers[: len(asked)], answers[len(asked) :], strict=True
    ):
        is_key = source is not value
        frame = bytes([0 if source.topic.endswith("2_8") else 1, kind, version])
        yield {
            "topic": "__" + source.topic.lower().removesuffix("_2_8"),
            "key": kind.to_bytes(2) + key[0] if is_key else None,
            "value": version.to_bytes(2) + message[0] if is_key else frame + message[0],
            "type": kind,
            "name": source.name.removesuffix("Key") if is_key else source.name,
            "version": version,
            "key_json": key[1] if is_key else None,
            "value_json": message[1],
        }


def golden():
    """Yield a record of each type and version, as lines of `tests/data/state-records.jsonl`."""
    # 4.0 is the last with one that no release needs any more.
    for release, names in ((OLDEST, ""), ("4.0.2", "ShareGroupPartitionMetadata"), (NEWEST, "")):
        for record in (one for one in records(release, [0]) if one["name"] == names or not names):
            texts = {part: record[part].hex() if record[part] is not None else None for part in ("key", "value")}
            yield json.dumps({**record, **texts})


if __name__ == "__main__":
    (Path(__file__).parents[1] / "data" / "state-records.jsonl").write_text("".join(f"{line}\n" for line in golden()))
