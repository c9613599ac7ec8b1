"""Spark jobs over many logs.

Modules:
    check.py, profile.py       the jobs that only read
    reading.py                 what they share
    rewrite.py, pool.py        compact and convert; calls made by Spark's tasks
    running.py                 tasks that report their results one by one
    export.py                  the export job
    export_plan.py             which file holds which offsets
    export_files.py            one task of an export
    export_directory.py        the directory of an export
    formats.py, tables.py      Parquet and JSON lines; Delta Lake and Iceberg
    manifest.py                what an export says of itself
    manifest_checks.py         what a manifest has to say before it is believed
    restore.py                 the restore job
    restore_parts.py           one task of a restore
"""
