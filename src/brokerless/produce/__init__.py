"""Rows to records: what a producer takes, which partition it goes to, batches and transactions."""
