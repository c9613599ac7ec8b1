"""Spark reads: options, views, tasks.

Modules:
    options.py                 the options of reads
    option_values.py           option syntax that reads and writes share
    records.py                 the view of rows, the default
    decoded.py                 keys and values that are decoded, and the schemas for it
    jvm_decoding.py            what tasks in the JVM need for it
    spark_types.py             Spark's types for those of Arrow
    batches.py, findings.py    the views of batch headers and of findings
    sums.py                    the view of counts that the profile job adds up
    state.py                   the views of a cluster's own state
    concise_errors.py          errors of workers without their traceback
    tasks.py, cuts.py          logs packed into tasks; splits cut by offset
"""
