"""Bytes in and out: storage that is read, disks that are written, calls in other processes."""
