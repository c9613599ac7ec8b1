"""A server of Kafka's protocol: any Kafka client reads a directory, with no broker.

Modules:
    serve.py        `serve`: the server, as a context manager
    directory.py    what the server asks a directory for
    address.py      hosts with ports
    users.py        users and passwords
    metrics.py      counters over HTTP
"""
