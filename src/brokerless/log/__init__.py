"""One `<topic>-<partition>` at rest: its files, and reading it."""
