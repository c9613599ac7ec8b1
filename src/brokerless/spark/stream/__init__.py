"""Spark streams: read logs while they grow.

Modules:
    stream_reader.py           `readStream`
    micro_batches.py           offsets from one trigger to the next
"""
