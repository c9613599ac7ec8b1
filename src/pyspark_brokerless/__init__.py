"""Where Spark finds `format("brokerless")` by itself: it looks for a DefaultSource in each top-level `pyspark_*`."""

from brokerless.spark.data_source import BrokerlessSource as DefaultSource

__all__ = ["DefaultSource"]
