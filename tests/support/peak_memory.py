"""The peak memory of the command, and logs of few bytes that decompress to very many."""

import re
import struct
import subprocess
import sys
from typing import NamedTuple

import pyarrow as pa

from brokerless import _native
from support.log_files import NOW

# Not `ru_maxrss`: a process inherits it from the one that starts it.
_COMMAND = """
import re, sys
from pathlib import Path
from brokerless.cli import main
try:
    main()
finally:
    peak = re.search("VmHWM:.*?([0-9]+)", Path("/proc/self/status").read_text())[1]
    print("peak", int(peak) // 1024, file=sys.stderr)
"""


class Ran(NamedTuple):
    """A finished command: its peak memory in MB, its exit code, and what it printed."""

    megabytes: int
    code: int
    out: str
    err: str


def run_measured(*arguments):
    """Run `brokerless` with these arguments."""
    command = [sys.executable, "-c", _COMMAND, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    (peak,) = re.findall(r"^peak (\d+)$", done.stderr, re.MULTILINE)
    return Ran(int(peak), done.returncode, done.stdout, done.stderr)


def varint(number):
    """A number as a record has it."""
    number, out = number << 1 if number >= 0 else (-number << 1) - 1, bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def record(delta, key, value):
    """A record of format 2."""
    body = b"\0\0" + varint(delta)
    for part in (key, value):
        body += varint(-1) if part is None else varint(len(part)) + part
    body += varint(0)
    return varint(len(body)) + body


def zstd_batch(content, count):
    """A batch of format 2 with these bytes of `count` records, compressed."""
    payload = pa.Codec("zstd", compression_level=3).compress(content, asbytes=True)
    body = struct.pack(">hiqqqhii", 4, count - 1, NOW, NOW, -1, -1, -1, count) + payload
    return struct.pack(">qiibI", 0, len(body) + 9, 0, 2, _native.crc32c(body)) + body
