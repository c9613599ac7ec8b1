"""A write by many tasks, all of it in force or nothing."""
