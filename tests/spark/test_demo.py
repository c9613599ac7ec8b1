"""`make demo` does the main job."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


def test_the_demo_finds_and_writes_the_sample_records(tmp_path):
    output = tmp_path / "records.parquet"
    command = [sys.executable, str(DEMO), str(DEMO.parent / "data"), str(output)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    assert result.stdout.splitlines()[-1] == f"1499 records found, 1415 committed ones written to {output}"
    assert sorted(path.name for path in output.glob("topic=*")) == [
        "topic=codec-mixed",
        "topic=headers",
        "topic=multi-partition",
        "topic=txn-commit-abort",
    ]
