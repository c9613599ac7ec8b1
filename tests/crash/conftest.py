"""The directory in which the commands of `commands.py` work."""

import pytest
from commands import make_outer


@pytest.fixture
def outer(tmp_path):
    return make_outer(tmp_path)
