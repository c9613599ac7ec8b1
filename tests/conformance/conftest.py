"""Every test here starts real Kafka: `make conformance` runs all of them, `make promises` a part."""

import pytest
from kafka import BUILD, Client


@pytest.fixture(scope="session")
def client():
    """Kafka's own clients."""
    assert BUILD.exists(), "real Kafka is missing: `make build/.conformance` fetches it"
    client = Client()
    yield client
    client.close()
