"""Schemas by id, GUID and subject, from records in any order and with any damage."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerless.notes import collected
from brokerless.schemas.schema import Reference, UnresolvedReferenceError, context_of, value_of, version_of
from brokerless.schemas.store import SchemaStore, changed, changes


def record(kind, value=None, *, offset=0, **key):
    content = None if value is None else json.dumps(value).encode()
    return offset, 1000 + offset, json.dumps({"keytype": kind, "magic": 1, **key}).encode(), content


def schema(subject, version, schema_id, text='"long"', *, offset=0, **more):
    value = {"subject": subject, "version": version, "id": schema_id, "schema": text, "deleted": False, **more}
    return record("SCHEMA", value, offset=offset, subject=subject, version=version)


def tombstone(subject, version, content=None):
    return (*record("SCHEMA", subject=subject, version=version)[:3], content)


def store(*rows):
    return SchemaStore("here", rows)


def state(found):
    return [(one.subject, one.version, one.schema.id, one.deleted) for one in found.versions]


@pytest.mark.parametrize("deleted", [None, b""], ids=["null", "empty, as Karapace writes"])
def test_a_hard_deleted_schema_is_still_there_by_its_id(deleted):
    found = store(schema("a", 1, 7), schema("a", 1, 7, deleted=True), tombstone("a", 1, deleted))
    assert (state(found), found.schema(7).text) == ([("a", 1, 7, "hard")], '"long"')


def test_a_deleted_subject_keeps_what_comes_after():
    deletion = record("DELETE_SUBJECT", {"subject": "a", "version": 2}, subject="a")
    found = store(schema("a", 1, 1), schema("a", 2, 2, '"int"'), deletion, schema("a", 3, 3, '"null"'))
    assert state(found) == [("a", 1, 1, "soft"), ("a", 2, 2, "soft"), ("a", 3, 3, None)]
    assert found.latest("a").version == 3
    cleared = store(schema("a", 1, 1), deletion, record("CLEAR_SUBJECT", {"subject": "a"}, subject="a"))
    assert state(cleared) == [("a", 1, 1, "hard")]
    assert cleared.latest("a").version == 1


def test_a_version_that_is_registered_again_has_both_schemas():
    found = store(schema("a", 1, 1), tombstone("a", 1), schema("a", 1, 5, '"int"'))
    assert state(found) == [("a", 1, 1, "hard"), ("a", 1, 5, None)]
    assert found.version("a", 1).schema.id == 5
    assert [one.subject for one in found.versions_of(found.schema(1))] == ["a"]


def test_the_first_schema_of_an_id_counts_as_in_a_registry():
    with collected() as notes:
        found = store(schema("a", 1, 1), schema("b", 1, 1, '"int"', offset=4))
    assert (state(found), found.schema(1).text) == ([("a", 1, 1, None)], '"long"')
    (told,) = notes
    assert told.startswith("here: 1 record left out, the first at offset 4: b version 1 has the id 1 of another schema")


def test_the_changes_of_a_registry_lead_to_its_later_state():
    rows = [schema("a", 1, 1), schema("a", 2, 2, '"int"'), schema("b", 1, 3, '"null"')]
    later = [
        schema("b", 2, 4, '"bytes"'),
        schema("a", 1, 1, deleted=True),
        tombstone("a", 2),
        schema("a", 2, 5, '"float"'),
    ]
    first, last = store(*rows), store(*rows, *later)
    found = changes(first, last)
    assert sorted((one.subject, one.version, one.schema.id) for one in found) == [
        ("a", 1, 1),
        ("a", 2, 2),
        ("a", 2, 5),
        ("b", 2, 4),
    ]
    assert changes(last, last) == []
    then = changed(first, found)
    assert sorted(then.schema(number).text for number in range(1, 6)) == sorted(
        last.schema(n).text for n in range(1, 6)
    )
    for subject in ("a", "b"):
        assert then.latest(subject) == last.latest(subject)
        assert then.version(subject, 1) == last.version(subject, 1)
    # The log cleaner removes what was deleted, and old data still carry its id.
    assert changed(first, changes(first, store(rows[0]))).schema(3).text == '"null"'


def test_ids_are_those_of_a_context():
    found = store(
        schema(":.eu:a-value", 1, 1, '"int"'), schema("b-value", 1, 1), schema(":.us:c-value", 1, 2, '"null"')
    )
    assert [found.schema(1).text, found.schema(2).text, found.schema(1, context=".eu").text] == [
        '"long"',
        '"null"',
        '"int"',
    ]
    assert found.schema(1, subject="a-value").text == '"int"'
    with pytest.raises(ValueError, match=r"no schema with the id 2 and the context \.eu in here"):
        found.schema(2, context=".eu")
    several = store(schema(":.eu:a", 1, 1, '"int"'), schema(":.us:a", 1, 1))
    with pytest.raises(
        ValueError, match=r"several contexts of here have a schema with the id 1: name one of \.eu, \.us"
    ):
        several.schema(1)


def test_what_is_not_understood_is_counted_and_named():
    rows = [
        (0, 0, b"no json", b"{}"),
        (1, 0, b"[1]", b"{}"),
        record("NEW_TYPE", {}, offset=2),
        record("SCHEMA", {"subject": "a"}, offset=3, subject="a", version=1),
        (4, 0, b'{"keytype":"SCHEMA"}', b"[" * 100_000),
        record("NOOP"),
        record("CONFIG", {"compatibilityLevel": "NONE"}),
        (5, 0, None, None),
        schema("a", True, 1, offset=6),
        schema("a", 1, 1 << 40, offset=7),
        schema("a", 1, 1, references=[{"name": "x"}], offset=8),
        schema("a", 1, 1),
    ]
    with collected() as notes:
        assert state(store(*rows)) == [("a", 1, 1, None)]
    assert notes == ["here: 9 records left out, the first at offset 0: it is no JSON"]


def link(subject, version=1, name=None):
    return {"name": name or subject, "subject": subject, "version": version}


def test_references_come_before_those_that_use_them():
    found = store(
        schema("top", 1, 1, references=[link("middle"), link("bottom")]),
        schema("middle", 1, 2, '"int"', references=[link("bottom")]),
        schema("bottom", 1, 3, '"null"'),
    )
    referenced = found.referenced(found.schema(1))
    assert [(one.name, of.id) for one, of in referenced] == [("bottom", 3), ("middle", 2)]


@pytest.mark.parametrize(
    ("references", "words"),
    [
        ([link("absent")], "schema 1 refers to absent: absent version 1 is not in here"),
        ([link("bottom", 9)], "schema 1 refers to bottom: bottom version 9 is not in here"),
        ([link("top")], "the references of schema 1 lead back to schema 1"),
        ([link("circle")], "the references of schema 1 lead back to schema 1"),
        ([link("bottom", name=str(number)) for number in range(1001)], "schema 1 has more than 1000 references"),
    ],
)
def test_references_that_lead_nowhere_or_back_are_refused(references, words):
    found = store(
        schema("top", 1, 1, references=references),
        schema("bottom", 1, 3, '"null"'),
        schema("circle", 1, 4, '"int"', references=[link("top")]),
    )
    with pytest.raises(UnresolvedReferenceError, match=words):
        found.referenced(found.schema(1))


def test_a_reference_within_a_context_needs_no_context():
    found = store(
        schema(":.eu:top", 1, 1, references=[link("bottom")]),
        schema("bottom", 1, 1, '"null"'),
        schema(":.eu:bottom", 1, 2, '"int"'),
    )
    assert [of.text for _, of in found.referenced(found.schema(1, context=".eu"))] == ['"int"']


def test_a_long_chain_of_references_needs_no_stack():
    chain = [schema(f"s{i}", 1, i, f'"{i}"', references=[link(f"s{i + 1}")] if i < 900 else []) for i in range(901)]
    found = store(*chain)
    assert len(found.referenced(found.schema(0))) == 900


@pytest.mark.parametrize("text", ["[{}]", '{"subject": 1}', "[1]"])
def test_a_file_that_is_something_else_is_refused(text):
    with pytest.raises(ValueError, match="here: entry 0 is not the version of a schema"):
        SchemaStore("here", text)
    with pytest.raises(ValueError, match="it is no JSON"):
        SchemaStore("here", text[:-1])


TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
VALUES = st.fixed_dictionaries(
    {
        "subject": TEXTS | TEXTS.map(":.c:{}".format),
        "version": st.integers(1, 3),
        "id": st.integers(1, 5),
        "schema": TEXTS,
    },
    optional={
        "schemaType": st.sampled_from(["AVRO", "PROTOBUF", "JSON"]),
        "references": st.lists(st.builds(link, TEXTS, st.integers(1, 3)), max_size=2),
        "metadata": st.fixed_dictionaries({"properties": st.dictionaries(TEXTS, TEXTS, max_size=2)}),
        "deleted": st.booleans(),
    },
)


@given(st.lists(VALUES, max_size=12), st.randoms())
def test_what_is_saved_is_what_was_read(values, chance):
    rows = []
    for offset, value in enumerate(values):
        key = {"subject": value["subject"], "version": value["version"]}
        rows.append(record("SCHEMA", value if chance.random() < 0.8 else None, offset=offset, **key))
    with collected():
        found = store(*rows)
        again = SchemaStore("there", found.to_json())
    assert state(again) == state(found)
    assert again.to_json() == found.to_json()
    assert [one.schema.guid for one in again.versions] == [one.schema.guid for one in found.versions]


def test_half_of_a_surrogate_pair_is_what_java_writes_for_it():
    version = version_of({"subject": "a", "version": 1, "id": 1, "schema": "\ud800"})
    assert (version.schema.text, value_of(version)["schema"]) == ("?", "?")


def test_a_context_ends_at_its_colon():
    assert [context_of(name) for name in ("a", ":.c:a", ":.c:", ":.c", "::a", ":.:a")] == [
        ".",
        ".c",
        ".c",
        ".c",
        ".",
        ".",
    ]


def test_references_are_equal_by_their_fields():
    assert Reference("a", "b", 1) == Reference("a", "b", 1)


def test_random_bytes_never_raise():
    chance = random.Random(1)
    base = schema("a", 1, 1)
    with collected():
        for _ in range(2000):
            key, value = bytearray(base[2]), bytearray(base[3])
            for part in (key, value):
                part[chance.randrange(len(part))] = chance.randrange(256)
            store((0, 0, bytes(key), bytes(value)))


def test_more_schemas_than_memory_may_hold_are_refused(monkeypatch):
    monkeypatch.setattr("brokerless.schemas.store.MOST_BYTES", 20)
    assert len(store(schema("a", 1, 7), schema("a", 2, 8), schema("b", 1, 8)).versions) == 3
    with pytest.raises(ValueError, match="here: the schemas have more than 20 bytes"):
        store(*(schema("a", number, number, json.dumps(f"t{number}")) for number in range(1, 9)))
