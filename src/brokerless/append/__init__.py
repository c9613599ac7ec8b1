"""A partition open for writing: appends, rolls, segments that take the place of others."""
