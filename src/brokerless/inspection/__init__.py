"""Inspection of files: dumps, findings, profiles.

Modules:
    dump.py                    the text of kafka-dump-log, and its checks of indexes
    decoded_dump.py            dumps with decoded keys and values
    record_contents.py         what dumps show of decoded keys and values
    decode_files.py            the entries of the small files
    findings.py                all defects of a segment
    profile.py                 statistics of a segment
"""
