"""Turn rows into records.

Modules:
    producer.py                rows to batches and transactions of a topic
    partitioner.py             the partition of each row
    rows.py, row_rules.py      rows as Arrow batches; the rows that a topic accepts
    parquet.py                 rows of Parquet files
"""
