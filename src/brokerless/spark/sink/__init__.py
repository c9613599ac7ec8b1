"""The writers, batch and streaming."""
