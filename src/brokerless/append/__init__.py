"""A partition open for writing: appending, rolling, and replacing segments."""
