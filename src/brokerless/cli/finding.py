"""`brokerless finding`: what a finding of `check` means."""

from __future__ import annotations

import json

import click

from brokerless.cli import terminal
from brokerless.cli.exit_codes import exit_line
from brokerless.cli.options import as_json


@click.command(short_help="Explain a finding of check.", epilog=exit_line(damage=None))
@click.argument("code", required=False)
@as_json
def finding(code: str | None, form: str) -> None:
    """Explain a finding of `brokerless check`: its effect on a broker and on readers, and its cure.

    Without CODE, list all of them.

    \b
    brokerless finding batch-crc
    """
    from brokerless.arguments import unknown
    from brokerless.checking.codes import CODES
    from brokerless.cli.table import print_table

    if code is not None and code not in CODES:
        raise unknown("finding", code, CODES)
    if form == "json":
        for name in CODES if code is None else [code]:
            one = CODES[name]
            texts = {"title": one.title, "broker": one.broker, "reader": one.reader, "cure": one.cure}
            click.echo(json.dumps({"code": name, "severity": one.severity, **texts}, separators=(",", ":")))
        return
    if code is None:
        rows = [[name, one.severity, one.title] for name, one in CODES.items()]
        print_table(("CODE", "SEVERITY", "WHAT"), rows, numbers=())
        return
    found = CODES[code]
    terminal.say(f"{code} ({found.severity}): {found.title}")
    for name, text in (("broker", found.broker), ("readers", found.reader), ("cure", found.cure)):
        click.echo(click.wrap_text(text, 100, f"{name + ':':9}", " " * 9))
