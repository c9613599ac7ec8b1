"""Spark writes: a DataFrame or a stream is written to topics of a log directory.

Modules:
    batch_sink.py              writes of batch jobs
    stream_sink.py             writes of streams, each streaming epoch once
    sink_options.py            the options of both
    written.py                 the messages between the driver, the tasks and the commit
"""
