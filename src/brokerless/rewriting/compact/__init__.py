"""Compaction: what is cleanable, which records stay, new segments, and why a record is still there."""
