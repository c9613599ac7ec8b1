"""Log directories as tables of query engines.

Modules:
    condition.py       a condition in SQL that rows must meet
    duckdb.py          topics and state tables as views of DuckDB
    json_fields.py     the fields of JSON text in such a condition
    polars.py          topics as lazy frames of polars
    state_tables.py    the state of a cluster, as tables that are read when a query names them
    usual_forms.py     the forms in which a query shows keys and values
"""
