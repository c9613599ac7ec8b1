"""Rows of real schema registries, with what their deserializers said of them."""

import json


def plain(value):
    """Return a value as JSON has it: the rows of the data name the types of JSON's strings."""
    if isinstance(value, dict):
        if len(value) == 1 and next(iter(value)).startswith("$"):
            return next(iter(value.values()))
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def expected_rows(registries, name):
    for path in sorted((registries / name / "expected").glob("*-[0-9].jsonl")):
        topic, _, partition = path.name.removesuffix(".jsonl").rpartition("-")
        yield topic, int(partition), [json.loads(line) for line in path.read_text().splitlines()]
