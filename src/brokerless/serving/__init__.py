"""A server of Kafka's protocol: any Kafka client reads a directory, with no broker.

Modules:
    serve.py        `serve`: the server, as a context manager
    directory.py    the answers of a directory to the server
    address.py      hosts with ports
    users.py        users and passwords
    metrics.py      counters over HTTP
"""
