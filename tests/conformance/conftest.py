"""Every test here starts real Kafka: `make conformance`, and not `make test`, runs them."""

from pathlib import Path

import pytest
from kafka import BUILD, Client


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.conformance)


@pytest.fixture(scope="session")
def client():
    """Kafka's own clients."""
    assert BUILD.exists(), "real Kafka is missing: `make conformance` fetches it"
    client = Client()
    yield client
    client.close()
