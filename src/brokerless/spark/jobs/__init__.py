"""Spark jobs over many logs.

Modules:
    check.py, profile.py       the jobs that only read
    report.py                  the page of `brokerless.report`
    repair.py                  the log directories of a cluster repaired
    reading.py                 the options and logs that they share
    rewrite.py                 operations that rewrite logs
    spark_tasks.py             calls made by Spark's tasks
    export.py                  the export job
    export_plan.py             the file of each range of offsets
    export_files.py            one task of an export
    export_directory.py        the directory of an export
    formats.py, tables.py      Parquet and JSON lines; Delta Lake and Iceberg
    manifest.py                the manifest of an export, and its validation before a restore
    restore.py                 the restore job
    restore_parts.py           one task of a restore
"""
