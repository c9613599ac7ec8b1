"""The schemas of a schema registry, from the records of its topic `_schemas`.

Modules:
    schema.py        one schema, with its references and GUID, and one version of a subject
    store.py         all schemas of a registry: by id, by GUID, by subject; as JSON
    registration.py  a new schema of a subject: its id, its version and its record
"""
