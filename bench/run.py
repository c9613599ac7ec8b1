"""Usage: run.py [PART...]; all parts by default: see `PARTS`. Exits 1 below a bar."""

from __future__ import annotations

import importlib
import os
import platform
import sys

PARTS = {
    "decode": "decode",
    "encode": "encode",
    "append": "append",
    "convert": "convert",
    "json": "json_lines",
    "spark": "spark_source",
    "connector": "connector",
    "jvm": "in_jvm",
    "jobs": "jobs",
    "scale": "scale",
    "compact": "compact",
    "state": "state",
    "check": "check",
    "find": "find",
    "query": "query",
    "serve": "serve",
    "values": "values",
    "spark-values": "spark_values",
}


def main(names: list[str]) -> int:
    """Run the parts named, or all."""
    unknown = sorted(set(names) - set(PARTS))
    if unknown:
        sys.exit(f"no part {unknown[0]!r}: choose from {', '.join(PARTS)}")
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    good = [importlib.import_module(PARTS[name]).main() for name in names or PARTS]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
