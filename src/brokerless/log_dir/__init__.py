"""Whole log directories: topics and their logs, written, recovered, copied, with the metadata of their cluster."""
