"""`brokerless spark`: verbs for logs that are too large for one machine.

Each verb has a file, but those that rewrite logs are all in `rewriting.py`. `session.py` creates the Spark session. The
jobs are in `brokerless.spark`.
"""

from __future__ import annotations

import click

from brokerless.cli.spark.check import check
from brokerless.cli.spark.export import export
from brokerless.cli.spark.profile import profile
from brokerless.cli.spark.repair import repair
from brokerless.cli.spark.report import report
from brokerless.cli.spark.restore import restore
from brokerless.cli.spark.rewriting import COMMANDS


@click.group(short_help="Run verbs as Spark jobs, for logs of a whole cluster.")
def spark() -> None:
    """Run verbs as Spark jobs: for logs that are too large for one machine.

    Without --master, and without SPARK_HOME in the environment, Spark runs on this machine, on all cores. Otherwise the
    driver runs on this machine, and the executors run where --master or the configuration in SPARK_HOME says. Every
    machine needs brokerless, and must see the files under the same PATH. If the Python that has brokerless is at
    another path on those machines, set PYSPARK_PYTHON to that path.

    \b
    brokerless spark check /kafka/data1 /kafka/data2
    brokerless spark repair /kafka/data1 /kafka/data2 --dry-run
    brokerless spark profile /kafka/data1 --by topic --by hour
    brokerless spark report /kafka/data1 /kafka/data2 --output report.html
    brokerless spark compact /kafka/data1 /kafka/data2 --topic users --in-place --resume-file done.jsonl
    brokerless spark erase /kafka/data1 /kafka/data2 --topic users --key customer-17 --dry-run
    brokerless spark export /kafka/data1 --output /exports/all --topic orders
    brokerless spark restore /exports/all --output /restored/kafka-data
    brokerless spark check s3://backup/kafka --master yarn --conf spark.executor.instances=20
    """


for command in (check, repair, profile, report, *COMMANDS, export, restore):
    spark.add_command(command)
