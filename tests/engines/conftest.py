"""The tests of this directory run with the packages of `make test-engines`."""

import os

collect_ignore_glob = [] if os.environ.get("BROKERLESS_ENGINES") else ["test_*.py"]
