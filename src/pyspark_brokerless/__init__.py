"""The package in which Spark finds `format("brokerless")`: it looks for a DefaultSource in each `pyspark_*`."""

from brokerless.spark.data_source import BrokerlessSource as DefaultSource

__all__ = ["DefaultSource"]
