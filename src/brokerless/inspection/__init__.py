"""What is in files: dumps, findings, profiles.

Modules:
    dump.py                    the text of kafka-dump-log, and its checks of indexes
    decode_files.py            the entries of the small files
    findings.py                everything that is wrong with a segment
    profile.py                 what a segment holds, in numbers
"""
