"""One page about a log directory: its topics, records, keys, producers, groups, transactions and findings.

Modules:
    report.py              the report, computed by threads of this process
    tables.py              its numbers, computed by threads or by Spark tasks
    contents.py            the contents of segments, from one pass over the segments
    coordinators.py        groups, commits and lags in `__consumer_offsets`, from one pass per partition
    lag_over_time.py       the lag of groups in intervals
    samples.py             the first and the latest records of partitions
    time_range.py          the times of most records, and outliers
    verdict.py             the verdict in one or two sentences
    page.py                the page
    sections.py            the tables and charts of the page
    topic_details.py       the partitions of each topic
    parts.py               sections, tables and cells
    charts.py              charts as SVG
    texts.py               numbers, times and foreign text as a page shows them
"""
