"""The verb `schemas` on the data of real registries."""

import json
from pathlib import Path

import pytest

from brokerless.cli.schemas import shown

REGISTRY = Path(__file__).parents[3] / "examples/registry"


def test_without_a_verb_it_lists(run):
    listed, named = run("schemas", REGISTRY), run("schemas", "list", REGISTRY)
    assert (listed.code, listed.out) == (0, named.out)
    assert "deleted-hard-value                             1  38  AVRO      hard " in listed.out
    first = json.loads(run("schemas", "--json", REGISTRY).out.splitlines()[0])
    assert (first["subject"], first["version"], first["deleted"]) == ("acme.proto.Purchase", 1, None)


def test_usage_of_records_elsewhere(run, tmp_path):
    saved = tmp_path / "schemas.json"
    assert run("schemas", REGISTRY, "--save", saved).err.endswith(f"versions written to {saved}\n")
    used = run("schemas", REGISTRY / "orders-0", "--usage", "--schemas", saved, "--json")
    rows = [json.loads(line) for line in used.out.splitlines()]
    assert {(row["part"], row["id"]) for row in rows} == {("key", 4), ("value", 1), ("value", 2), ("value", 3)}
    assert rows[1]["subjects"] == [{"subject": "orders-value", "version": 1, "deleted": None}]


def test_one_schema_by_its_id_or_guid(run):
    by_id = run("schemas", "show", 3, REGISTRY)
    assert json.loads(by_id.out)["name"] == "Order"
    first, second, *_ = by_id.err.splitlines()
    guid = first.rpartition(" ")[2]
    assert (first, second) == (f"AVRO, id 3, guid {guid}", "orders-value version 3")
    assert run("schemas", "show", guid, REGISTRY).out == by_id.out
    told = json.loads(run("schemas", "show", 1, REGISTRY, "--context", ".ctx", "--json").out)
    assert (told["context"], told["versions"][0]["subject"]) == (".ctx", ":.ctx:ctx-orders-value")


def test_what_changed_between_versions(run):
    changed = run("schemas", "diff", "orders-value", 1, "latest", REGISTRY).out
    assert changed.startswith("--- orders-value version 1 (id 1)\n+++ orders-value version 3 (id 3)\n")
    assert '-      "type": "int"\n+      "type": "long"\n' in changed
    assert run("schemas", "diff", "orders-value", 2, 2, REGISTRY).out == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", 999], "no schema with the id 999 in"),
        (["show", "00000000-0000-0000-0000-000000000000"], "no schema with the GUID 00000000"),
        (["diff", "orders-valeu", 1, 2], "unknown subject 'orders-valeu': did you mean 'orders-value'?"),
        (["diff", "orders-value", 1, 9], "orders-value has no version 9: it has 1, 2, 3"),
        (["diff", "orders-value", 1, "newest"], "'newest' is no version: give a number, or latest"),
        (["list", "--topic", "orders"], "--topic needs --usage"),
        (["show", "abc"], "'abc' is neither an id nor a GUID"),
        (["shwo", 3], "No such command 'shwo'"),
    ],
)
def test_mistakes_are_named(run, arguments, words):
    failed = run("schemas", *arguments, REGISTRY)
    assert (failed.code, words in failed.err) == (2, True), failed.err


def test_a_directory_without_a_registry_is_named(run):
    failed = run("schemas", REGISTRY.parent / "data")
    assert (failed.code, "no topic _schemas in" in failed.err) == (2, True)


def test_a_schema_cannot_control_a_terminal(run, tmp_path):
    hostile = "message A {\n\toptional string a = 1; // \x1b[2J\n}"
    saved = tmp_path / "schemas.json"
    saved.write_text(json.dumps([{"subject": "a", "version": 1, "id": 1, "schema": hostile}]))
    assert run("schemas", "show", 1, saved).out == f"{hostile}\n"
    assert shown(hostile, is_terminal=True) == hostile.replace("\x1b", "\\x1b").replace("\t", "    ")


def test_a_list_of_schemas_leads_to_their_use(run):
    registry = Path(__file__).parents[3] / "examples/registry"
    result = run("schemas", registry)
    command = f"schemas {registry} --usage"
    assert f"next: brokerless {command}" in result.err.splitlines()
    assert run(*command.split()).code == 0
    assert "next:" not in run("schemas", registry, "--json").err
