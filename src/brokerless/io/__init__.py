"""Input and output: reads of files, writes to disk, work in other processes.

Modules:
    storage.py, remote.py      listing, sizes and range reads: local files, and object stores through fsspec
    disk.py                    every change to a file system; durable only where it says so
    file_window.py             a file read through one reused buffer
    threads.py                 threads that say their notes where their caller does
    workers.py, chunking.py    calls in this process or in others; work divided by bytes
    clock.py                   the time
"""
