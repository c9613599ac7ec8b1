"""Logs of a real broker as Delta Lake and Iceberg tables: every row, with every column."""

import json
import subprocess
from pathlib import Path

import pytest

JOB = Path(__file__).parent / "tables_job.py"
OLDEST = Path(__file__).parents[2] / ".venv-oldest" / "bin" / "python"


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_table_has_every_row_of_the_logs(golden, tmp_path, form):
    command = [OLDEST, JOB, form, golden / "logs/kafka-4.1", tmp_path / "table"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (answer,) = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    assert answer["rows"] > 5000
    assert len(answer["found"]) == answer["rows"]
    assert answer["found"] == answer["expected"]
