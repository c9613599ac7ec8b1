"""Inspection of files: dumps, findings, profiles.

Modules:
    dump.py                    the text of kafka-dump-log, and its checks of indexes
    decode_files.py            the entries of the small files
    findings.py                all defects of a segment
    profile.py                 statistics of a segment
"""
