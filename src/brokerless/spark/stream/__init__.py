"""Spark streams: read logs while they grow.

Modules:
    stream.py                  `readStream`
    stream_offsets.py          offsets from one trigger to the next
"""
