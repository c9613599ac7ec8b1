"""`report`: a whole page or none, and an exit code that tells of damage."""

import pytest

import damage
from building import batch, write_segment


@pytest.fixture
def log(tmp_path):
    return write_segment(tmp_path / "data" / "t-0", 0, [batch(at, [b"v"]) for at in range(10)])


def test_a_page_is_written(log, run, tmp_path):
    result = run("report", tmp_path / "data", "--output", tmp_path / "page.html")
    assert (result.code, result.out, result.err) == (0, "", "")
    assert "<!doctype html>" in (tmp_path / "page.html").read_text()
    assert run("report", tmp_path / "data", "--output", "-").out.startswith("<!doctype html>")


def test_damage_is_told_and_the_page_is_there(log, run, tmp_path):
    damage.flip_bit(log, 100)
    result = run("report", tmp_path / "data", "--output", tmp_path / "page.html")
    assert result.code == 1
    assert "the check has 1 finding: see the page" in result.err
    assert "record batch crc mismatch" in (tmp_path / "page.html").read_text()


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
