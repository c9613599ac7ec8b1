"""The source of a session that has the jar, and the Python source beside it under a name of its own."""

import os
import re

from pyspark.serializers import BatchedSerializer, CPickleSerializer
from pyspark.sql.datasource import DataSourceReader

IN_PYTHON = "brokerless_python"
_ERROR = re.compile(r"(?:brokerless\.errors\.)?\b\w+Error: .*?(?=\s*SQLSTATE|\n\s*\n|\n\s*at |\Z)", re.DOTALL)


def register(spark, said):
    """Register the Python source as `brokerless_python`; what its tasks warn of goes to the file `said`."""
    # Classes of a function: Spark pickles them whole, and its workers need no module of tests.
    from brokerless.spark.data_source import BrokerlessSource

    class Listening(DataSourceReader):
        def __init__(self, reader):
            self._reader = reader

        def partitions(self):
            return self._reader.partitions()

        def read(self, partition):
            import warnings

            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                yield from self._reader.read(partition)
            with open(said, "a") as file:
                file.writelines(f"{one.message}\n" for one in warned)

    class InPython(BrokerlessSource):
        @classmethod
        def name(cls):
            return IN_PYTHON

        def reader(self, schema):
            return Listening(super().reader(schema))

    spark.dataSource.register(InPython)


class LogOfJvm:
    """What the reader in the JVM logs: a file, as `said` is."""

    def __init__(self, spark, said):
        log4j = spark._jvm.org.apache.logging.log4j
        name = "brokerless.spark.RecordsReader"
        log4j.core.config.Configurator.setLevel(name, log4j.Level.WARN)
        layout = log4j.core.layout.PatternLayout.newBuilder().withPattern("%m%n").build()
        appender = log4j.core.appender.FileAppender.newBuilder().setName(str(said)).setLayout(layout)
        appender = appender.withFileName(str(said)).withImmediateFlush(True).build()
        appender.start()
        self._logger = log4j.LogManager.getLogger(name)
        self._logger.addAppender(appender)
        self._appender = appender

    def close(self):
        self._logger.removeAppender(self._appender)
        self._appender.stop()


def error_of(text):
    """Return the class and the words of the error that a task, or the plan, ended with."""
    found = _ERROR.findall(text)
    assert found, text
    return found[0].strip()


class Tasks:
    """The tasks of a read, planned once; each can run alone."""

    def __init__(self, spark, name, path, where=None, **options):
        reader = spark.read.format(name).option("path", os.fspath(path))
        for option, value in options.items():
            reader = reader.option(option.replace("__", "."), value)
        frame = reader.load()
        frame = frame if where is None else frame.where(where)
        self._context = spark.sparkContext
        self._rdd = frame._jdf.javaToPython()
        self._rows = BatchedSerializer(CPickleSerializer())

    def __len__(self):
        return self._rdd.getNumPartitions()

    def run(self, number):
        """Return the rows of a task, or its error."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException
        from pyspark.util import _load_from_socket

        try:
            served = self._context._jvm.PythonRDD.runJob(self._context._jsc.sc(), self._rdd, [number])
        except (PySparkException, Py4JJavaError) as error:
            return error_of(str(error))
        with _load_from_socket(served, self._rows) as rows:
            return [tuple(row) for row in rows]
