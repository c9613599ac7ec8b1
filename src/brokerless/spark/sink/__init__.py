"""Spark writes: a DataFrame, or a stream, becomes topics of a log directory.

Modules:
    sink.py, sink_options.py   writes of batch jobs; their options
    stream_sink.py             writes of streams, each epoch once
"""
