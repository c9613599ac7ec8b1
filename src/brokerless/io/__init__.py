"""Input and output: reads of files, writes to disk, calls in other threads and processes.

Modules:
    storage.py, remote.py      listing, sizes and range reads: local files, and object stores through fsspec
    disk.py                    every change to a file system, durable only where stated
    access.py                  owners and permissions of what is created
    file_window.py             a file read through one reused buffer
    runner.py, processes.py    calls that run several at a time, in threads or in processes
    streams.py                 iterators that threads run ahead of their reader
    scanning.py                a dataset of pyarrow whose rows a function yields
    interrupts.py              interrupts that wait for the end of a change
    cores.py, chunking.py      the cores of this process; work divided by bytes
    clock.py                   the time
"""
