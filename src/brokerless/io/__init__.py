"""Bytes in and out: files that are read, disks that are written, work in other processes.

Modules:
    storage.py, remote.py      list, size, read a range: local files, and object stores by fsspec
    disk.py                    every change to a file system; durable only where it says so
    file_window.py             a file seen through one reused buffer
    workers.py, chunking.py    calls in this process or in others; work divided by bytes
    clock.py                   the time
"""
