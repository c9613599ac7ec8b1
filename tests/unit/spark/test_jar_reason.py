"""An installation without the jar says why it has none: it blamed a missing JDK, whatever the reason was."""

import pytest

from brokerless.spark import in_jvm


def test_the_reason_is_that_of_the_build(tmp_path, monkeypatch):
    monkeypatch.setattr(in_jvm, "__file__", str(tmp_path / "in_jvm.py"))
    with pytest.raises(FileNotFoundError, match=r"not built in this checkout, or was deleted\. .*JDK 17"):
        in_jvm.jar()
    (tmp_path / "no_jar.txt").write_text("the JDK was older than Java 17 (javac 11.0.2)\n")
    with pytest.raises(FileNotFoundError, match=r"was built, the JDK was older than Java 17 \(javac 11\.0\.2\)\. "):
        in_jvm.jar()
    (tmp_path / "brokerless.jar").touch()
    assert in_jvm.jar() == str(tmp_path / "brokerless.jar")
