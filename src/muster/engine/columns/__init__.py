"""What state keeps in columns, so that a turn walks no objects."""
