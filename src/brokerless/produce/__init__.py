"""Rows to records.

Modules:
    producer.py                rows to batches and transactions of a topic
    partitioner.py             which partition a row goes to
    rows.py, row_rules.py      rows as a producer takes them; which rows a topic accepts
    parquet.py                 rows of Parquet files
"""
