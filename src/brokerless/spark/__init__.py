"""Spark: `format("brokerless")`, with the columns and options of Spark's own Kafka source."""
