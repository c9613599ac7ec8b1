"""The batch reader: options, tasks, records."""
