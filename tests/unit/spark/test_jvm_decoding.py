"""Tasks in the JVM know of each id what Python would answer."""

import json

import hypothesis.strategies as st
from hypothesis import given

from brokerless.schemas.store import SchemaStore
from brokerless.spark.source.jvm_decoding import decoding_in_json
from brokerless.values.decoding import Decoding
from brokerless.values.resolution import Resolver, Target

TOPICS = ("orders", "users", None)
SUBJECTS = ("orders-value", "orders-key", "orders-Order", "users-value", "other")
TEXTS = ('"string"', '"long"', '{"type":"array","items":"int"}')


@st.composite
def stores(draw):
    """Few ids, subjects, texts and contexts, so that they meet."""
    answers = []
    versions = {}
    for _ in range(draw(st.integers(0, 8))):
        context = draw(st.sampled_from(["", ":.old:", ":.new:"]))
        subject = context + draw(st.sampled_from(SUBJECTS))
        schema_id = draw(st.integers(1, 3))
        versions[subject] = versions.get(subject, 0) + 1
        references = []
        if draw(st.integers(0, 5)) == 0:
            references = [{"name": "other", "subject": draw(st.sampled_from(SUBJECTS)), "version": 1}]
        version = {"subject": subject, "version": versions[subject], "id": schema_id, "schemaType": "AVRO"}
        answers.append(version | {"schema": TEXTS[schema_id - 1], "references": references})
    return answers


@given(stores(), st.sampled_from([None, ".", ".old"]), st.sampled_from([None, "orders-value"]))
def test_tasks_in_the_jvm_know_what_python_would_answer(answers, context, subject):
    try:
        store = SchemaStore("here", json.dumps(answers))
    except ValueError:
        return
    decoding = Decoding(value="registry", key="registry", schemas=store, context=context, subject=subject)
    found = json.loads(decoding_in_json(decoding, {"value": Target(), "key": Target()}, TOPICS))
    guids = {version.schema.guid for version in store.versions}
    for part in found["parts"]:
        for topic in TOPICS:
            own = part["topics"].get(topic, {})
            resolver = Resolver(store, topic, part["part"], subject if part["part"] == "value" else None, context)
            for name in (1, 2, 3, 4, *guids, "00000000-0000-0000-0000-000000000000"):
                answer = own.get(str(name), part["answers"].get(str(name)))
                if answer is None:
                    words = part["no_id" if isinstance(name, int) else "no_guid"]
                    answer = {"reason": words.replace("{}", str(name)), "id": name if isinstance(name, int) else None}
                assert told(answer, found) == expected(resolver, name)


def told(answer, found):
    if "reason" in answer:
        return answer["reason"], answer["id"]
    schema = found["schemas"][answer["schema"]]
    references = [(name, found["texts"][place]) for name, place in schema["references"]]
    text = (schema["schema_type"], found["texts"][schema["text"]], references)
    return (*text, answer["id"], answer["subject"], answer["version"])


def expected(resolver, name):
    try:
        return tuple(resolver(name))
    except ValueError as error:
        return str(error), name if isinstance(name, int) else None
