"""Usage errors and missing things: exit 2, a line that says what to do, no traceback."""

import pytest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["read", "/nonexistent"], "does not exist"),
        (["read"], "Missing argument 'PATH...'"),
        (["raed"], "No such command 'raed'"),
        (["read", "{}", "--topic", "codec-zsdt"], "did you mean 'codec-zstd'?"),
        (["read", "{}", "--topic", "codec-zstd", "--partition", "7"], "unknown partition '7'"),
        (["read", "{}/codec-zstd-0", "--start-offset", "-1"], "is no offset"),
        (["read", "{}/codec-zstd-0", "--start-offset", "501"], "501"),
        (["read", "{}/codec-zstd-0", "--start-timestamp", "yesterday"], "ISO 8601"),
        (["offsets", "{}/codec-zstd-0"], "Missing option '--timestamp'"),
        (["offsets", "{}/codec-zstd-0", "--timestamp", "newest"], "max-timestamp"),
        (["dump", "{}/codec-zstd-0"], "is a directory"),
    ],
)
def test_could_not_run(arguments, message, golden, run):
    result = run(*(argument.replace("{}", str(golden / "logs/kafka-4.1")) for argument in arguments))
    assert result.code == 2
    assert result.out == ""
    assert message in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("verb", [[], ["ls"], ["read"], ["dump"], ["offsets"]])
def test_help_teaches_by_examples(verb, run):
    result = run(*verb, "--help")
    assert result.code == 0
    assert result.out.count("\n  brokerless ") >= 3


def test_version(run):
    assert run("--version").out.startswith("brokerless, version ")


def test_a_warning_is_one_line_without_python_in_it(copied, run):
    root = copied("kafka-4.1", "codec-gzip-0", "codec-zstd-0")
    (root / "log-start-offset-checkpoint").write_text("garbage\n")
    result = run("read", root, "--limit", "1")
    assert (result.code, result.out.count("\n"), result.err.count("\n")) == (0, 1, 1)
    assert result.err.startswith("warning: ")
    assert "log-start-offset-checkpoint" in result.err
    assert ".py" not in result.err
