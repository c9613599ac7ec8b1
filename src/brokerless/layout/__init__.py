"""What Kafka keeps in a log directory besides records: file names, checkpoints, settings, metadata, locks."""
