"""What a broker does to a partition when it starts: load, recover, truncate."""
