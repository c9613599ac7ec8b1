"""`brokerless recover`: after a crash, what a broker does to its logs when it starts."""

from __future__ import annotations

import click

from brokerless.cli.options import Progress


@click.command(short_help="Recover the logs of a directory after a crash.")
@click.argument("path", type=click.Path(exists=True, file_okay=False))
@click.option("--topic", "topics", multiple=True, help="Only this topic. Repeatable.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
def recover(path: str, topics: tuple[str, ...], dry_run: bool) -> None:
    """Recover the logs of the log directory PATH, which must not be in use by a broker.

    Each log is cut at its first invalid batch behind the recovery point, its indexes and producer state are rebuilt,
    and leftovers of interrupted cleanings and deletions are finished or removed: step for step what a broker does when
    it starts without a clean-shutdown marker. When all logs are recovered the marker is written, so that the broker
    starts at once. Each change is printed. Exit code 1: a broker would not start; the message names the cure.

    \b
    brokerless recover data --dry-run
    brokerless recover data
    """
    from brokerless.recovery import planned, recovered

    changes = 0
    with Progress(prints=True) as progress:
        for name, steps in (planned if dry_run else recovered)(path, topics):
            progress(name)
            for step in steps:
                click.echo(f"{name}: {step}")
            changes += len(steps)
    done = f"{changes} changes {'to be made' if dry_run else 'made'} in {path}"
    whose = "those of these topics" if topics else "its logs"
    click.echo(done if changes else f"{done}: a broker takes {whose} as they are", err=True)
