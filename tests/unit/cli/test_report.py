"""`report`: a whole page or none, and an exit code that tells of damage."""

from functools import partial

import pytest

from brokerless.checking.codes import CODES
from brokerless.reporting import report as of_report
from brokerless.state.transactions import current_transactions
from support import damage
from support.log_files import batch, write_segment
from support.state_records import transaction_key, transaction_value, write_records


@pytest.fixture
def log(tmp_path):
    log = write_segment(tmp_path / "data" / "t-0", 0, [batch(at, [b"v"]) for at in range(10)])
    (tmp_path / "data/t-0/leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    for name in ("index", "timeindex"):
        log.with_suffix(f".{name}").touch()
    return log


def test_a_page_is_written(log, run, tmp_path):
    result = run("report", tmp_path / "data", "--output", tmp_path / "page.html")
    assert (result.code, result.out, result.err) == (0, "", f"wrote {tmp_path / 'page.html'}\n")
    assert "<!doctype html>" in (tmp_path / "page.html").read_text()
    assert run("report", tmp_path / "data", "--output", "-").out.startswith("<!doctype html>")


def test_samples_are_shown_on_request(log, run, tmp_path):
    assert "Records of t" not in run("report", tmp_path / "data", "--output", "-").out
    assert "Records of t" in run("report", tmp_path / "data", "--output", "-", "--samples", 2).out
    assert run("report", tmp_path / "data", "--output", "-", "--samples", 21).code == 2


def test_damage_is_told_and_the_page_is_there(log, run, tmp_path):
    damage.flip_bit(log, 100)
    result = run("report", tmp_path / "data", "--output", tmp_path / "page.html")
    assert result.code == 1
    assert result.err.splitlines()[1:] == [
        "findings: 1 error, 0 warnings, 0 notes; see the page, or `brokerless check --deep`"
    ]
    page = (tmp_path / "page.html").read_text()
    assert "record batch crc mismatch" in page
    assert "batch-crc" in page
    assert CODES["batch-crc"].title in page


def test_warnings_have_an_exit_code_of_their_own(log, run, tmp_path):
    (log.parent / "leader-epoch-checkpoint").write_text("0\n1\n7 0\n")
    result = run("report", tmp_path / "data", "--output", tmp_path / "page.html")
    assert (result.code, result.err.splitlines()[1][:35]) == (3, "findings: 0 errors, 1 warning, 0 no")


def test_what_is_refused(log, run, tmp_path):
    assert "Missing option '--output'" in run("report", tmp_path / "data").err
    result = run("report", tmp_path / "data", "--output", tmp_path / "page.html", "--topic", "x")
    assert (result.code, "topic 'x'" in result.err) == (2, True)
    assert not (tmp_path / "page.html").exists()


def test_an_output_that_cannot_be_is_refused_before_the_work(log, run, tmp_path):
    refused = run("report", tmp_path / "data", "--output", tmp_path / "nowhere" / "page.html")
    assert (refused.code, "nowhere" in refused.err) == (2, True)
    before = log.read_bytes()
    refused = run("report", tmp_path / "data", "--output", log)
    assert (refused.code, "whose files are not changed" in refused.err) == (2, True)
    assert log.read_bytes() == before


def test_a_report_advises_no_option_that_it_lacks(tmp_path, run, monkeypatch):
    """`--memory` is one of `groups` and `transactions`."""
    monkeypatch.setattr("brokerless.reporting.tables.current_transactions", partial(current_transactions, memory=1024))
    write_records(tmp_path / "data", "__transaction_state", [(transaction_key("x"), transaction_value(9, 1))])
    result = run("report", tmp_path / "data", "--output", tmp_path / "report.html")
    assert "with --memory of `groups` or `transactions`" in result.err
    assert "--memory" not in run("report", "--help").out


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib"])
def test_an_extra_that_is_missing_is_named_and_is_no_fault_of_ours(run, log, tmp_path, monkeypatch, missing):
    monkeypatch.setattr(of_report, "find_spec", lambda name: None if name == missing else object())
    result = run("report", log.parents[1], "--output", tmp_path / "page.html")
    assert (result.code, result.err) == (2, f"brokerless: a report needs {missing}: pip install 'brokerless[report]'\n")
