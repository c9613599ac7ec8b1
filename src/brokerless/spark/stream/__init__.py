"""Spark streams: read logs while they grow.

Modules:
    stream.py                  `readStream`
    follower.py                offsets from one trigger to the next
"""
