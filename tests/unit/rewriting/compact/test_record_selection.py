"""What was decided about records: put together by OR, sent elsewhere, and on the disk where it is much."""

import pytest

from brokerless.rewriting.compact.record_selection import Verdicts, count


@pytest.mark.parametrize("max_bytes", [1, 1 << 20])
def test_repeated_selections_are_merged(max_bytes, tmp_path):
    with Verdicts(max_bytes) as verdicts:
        for base_offset in (0, 100):
            verdicts.add(base_offset, b"\x01", b"", b"entry")
        verdicts.add(0, b"\x02\x00\x80", b"\x04")
        verdicts.add(0, b"\x10", b"\x01")
        assert verdicts.of(0) == (b"\x13\x00\x80", b"\x05", b"entry")
        assert verdicts.of(100) == (b"\x01", b"", b"entry")
        with pytest.raises(KeyError):
            verdicts.of(200)
        verdicts.save(str(tmp_path))
        with Verdicts(max_bytes) as sent:
            sent.add_saved(str(tmp_path), 0)
            assert sent.of(0) == verdicts.of(0)
            sent.add(0, b"\xff", b"")
            assert (count(sent.of(0)[0]), count(verdicts.of(0)[0])) == (9, 4)
