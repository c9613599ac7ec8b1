"""Ways to break a file, by the kind of file: each function changes one file in place and says nothing more.

Named after what happens to disks and brokers: a bit flips, a file is cut, a tail is zeros, a file of another segment
or of another time is in the place.
"""

import random
from pathlib import Path


def flip_bit(path, position, bit=0):
    content = bytearray(Path(path).read_bytes())
    content[position] ^= 1 << bit
    Path(path).write_bytes(content)


def overwrite(path, position, replacement):
    content = bytearray(Path(path).read_bytes())
    content[position : position + len(replacement)] = replacement
    Path(path).write_bytes(content)


def cut(path, length):
    """Keep the first `length` bytes; a negative length takes bytes off the end."""
    content = Path(path).read_bytes()
    Path(path).write_bytes(content[:length])


def append(path, tail):
    Path(path).write_bytes(Path(path).read_bytes() + tail)


def remove(path):
    Path(path).unlink()


def zero(path):
    Path(path).write_bytes(bytes(Path(path).stat().st_size))


def randomize(path, seed=0):
    Path(path).write_bytes(random.Random(seed).randbytes(Path(path).stat().st_size))


def shift(path, count):
    """Insert bytes at the front, so that every entry is out of step."""
    Path(path).write_bytes(bytes(count) + Path(path).read_bytes())


def reverse_entries(path, entry_size):
    content = Path(path).read_bytes()
    entries = [content[i : i + entry_size] for i in range(0, len(content) - entry_size + 1, entry_size)]
    Path(path).write_bytes(b"".join(reversed(entries)))


def nudge_entries(path, entry_size, at, by):
    """Add `by` to the 4-byte number at byte `at` of every entry."""
    content = bytearray(Path(path).read_bytes())
    for start in range(0, len(content) - entry_size + 1, entry_size):
        number = int.from_bytes(content[start + at : start + at + 4], "big", signed=True)
        content[start + at : start + at + 4] = (number + by & 0xFFFFFFFF).to_bytes(4, "big")
    Path(path).write_bytes(content)


OFFSET_INDEX_ENTRY = 8
TIME_INDEX_ENTRY = 12

INDEX_DAMAGE = {
    "missing": remove,
    "empty": lambda path: cut(path, 0),
    "zeros": zero,
    "random": randomize,
    "cut to half": lambda path: cut(path, Path(path).stat().st_size // 2),
    "odd length": lambda path: cut(path, -3),
    "out of step": lambda path: shift(path, 1),
    "preallocated": lambda path: append(path, bytes(4096)),
    "garbage at the end": lambda path: append(path, b"\x7f" * 48),
}
"""Damage that any index must bear: what it costs is speed."""

OFFSET_INDEX_DAMAGE = INDEX_DAMAGE | {
    "reversed": lambda path: reverse_entries(path, OFFSET_INDEX_ENTRY),
    "offsets too high": lambda path: nudge_entries(path, OFFSET_INDEX_ENTRY, 0, 3),
    "offsets too low": lambda path: nudge_entries(path, OFFSET_INDEX_ENTRY, 0, -3),
    "positions too high": lambda path: nudge_entries(path, OFFSET_INDEX_ENTRY, 4, 1),
    "positions too low": lambda path: nudge_entries(path, OFFSET_INDEX_ENTRY, 4, -1),
    "positions negative": lambda path: nudge_entries(path, OFFSET_INDEX_ENTRY, 4, -(1 << 31)),
    "positions behind the file": lambda path: nudge_entries(path, OFFSET_INDEX_ENTRY, 4, 1 << 24),
}

TIME_INDEX_DAMAGE = INDEX_DAMAGE | {
    "reversed": lambda path: reverse_entries(path, TIME_INDEX_ENTRY),
    "offsets too high": lambda path: nudge_entries(path, TIME_INDEX_ENTRY, 8, 1),
    "offsets far too high": lambda path: nudge_entries(path, TIME_INDEX_ENTRY, 8, 40),
    "offsets too low": lambda path: nudge_entries(path, TIME_INDEX_ENTRY, 8, -1),
    "times too high": lambda path: nudge_entries(path, TIME_INDEX_ENTRY, 4, 1000),
    "times too low": lambda path: nudge_entries(path, TIME_INDEX_ENTRY, 4, -1000),
}
