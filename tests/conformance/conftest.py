"""Every test here starts real Kafka: `make conformance`, and not `make test`, runs them."""

import pytest
from kafka import BUILD, Client


@pytest.fixture(scope="session")
def client():
    """Kafka's own clients."""
    assert BUILD.exists(), "real Kafka is missing: `make conformance` fetches it"
    client = Client()
    yield client
    client.close()
