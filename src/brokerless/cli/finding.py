"""`brokerless finding`: what a finding of `check` means."""

from __future__ import annotations

import click

from brokerless.cli import terminal


@click.command(short_help="Explain a finding of check.")
@click.argument("code", required=False)
def finding(code: str | None) -> None:
    """Explain a finding of `brokerless check`: its effect on a broker and on readers, and its cure.

    Without CODE, list all of them.

    \b
    brokerless finding batch-crc
    """
    from brokerless.arguments import unknown
    from brokerless.checking.codes import CODES
    from brokerless.cli.table import print_table

    if code is None:
        rows = [[name, one.severity, one.title] for name, one in CODES.items()]
        print_table(("CODE", "SEVERITY", "WHAT"), rows, numbers=())
        return
    if code not in CODES:
        raise unknown("finding", code, CODES)
    found = CODES[code]
    terminal.say(f"{code} ({found.severity}): {found.title}")
    for name, text in (("broker", found.broker), ("readers", found.reader), ("cure", found.cure)):
        click.echo(click.wrap_text(text, 100, f"{name + ':':9}", " " * 9))
