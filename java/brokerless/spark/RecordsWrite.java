package brokerless.spark;

import java.io.IOException;
import net.razorvine.pickle.Unpickler;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceWriteInfo;

/** A write that Python begins and commits, and whose tasks run in the JVM. */
final class RecordsWrite implements Write {
  static {
    // A writer is pickled as a call of this function, whose first argument is what its tasks need, as JSON.
    Unpickler.registerConstructor("brokerless.spark.sink.written", "writer", arguments -> arguments[0]);
  }

  private final Write python;
  private final PythonDataSourceV2 source;
  private final LogicalWriteInfo info;
  private final boolean isTruncate;

  private RecordsWrite(Write python, PythonDataSourceV2 source, LogicalWriteInfo info, boolean isTruncate) {
    this.python = python;
    this.source = source;
    this.info = info;
    this.isTruncate = isTruncate;
  }

  @Override
  public String description() {
    return python.description();
  }

  @Override
  public BatchWrite toBatch() {
    return new OfBatch();
  }

  @Override
  public StreamingWrite toStreaming() {
    return new OfStream(python.toStreaming());
  }

  /** Creates the writer in Python, which begins the write. */
  private PythonDataSourceWriteInfo begin(boolean isStream) {
    return source
        .source()
        .createWriteInfoInPython(BrokerlessSource.NAME, info.schema(), info.options(), isTruncate, isStream);
  }

  private PartWriter.Factory factory(byte[] writer) {
    try {
      Object task = new Unpickler().loads(writer);
      if (task instanceof String failure) { // of a streaming epoch that could not begin
        throw TaskFailure.of(new IOException(failure));
      }
      return new PartWriter.Factory((byte[]) task, info.schema());
    } catch (IOException | ClassCastException error) {
      throw new IllegalStateException("a writer of another version of brokerless", error);
    }
  }

  /** The write of a batch job. */
  private final class OfBatch implements BatchWrite {
    private byte[] writer;

    @Override
    public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
      writer = begin(false).writer();
      return factory(writer);
    }

    @Override
    public void commit(WriterCommitMessage[] messages) {
      source.source().commitWriteInPython(writer, messages, false);
    }

    @Override
    public void abort(WriterCommitMessage[] messages) {
      source.source().commitWriteInPython(writer, messages, true);
    }
  }

  /** The writes of a streaming query's epochs. */
  private final class OfStream implements StreamingWrite {
    private final StreamingWrite python;

    private OfStream(StreamingWrite python) {
      this.python = python;
    }

    @Override
    public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo physical) {
      return factory(begin(true).writer());
    }

    @Override
    public void commit(long epoch, WriterCommitMessage[] messages) {
      python.commit(epoch, messages);
    }

    @Override
    public void abort(long epoch, WriterCommitMessage[] messages) {
      python.abort(epoch, messages);
    }
  }

  /** Takes whether the topic is replaced. */
  static final class Builder implements SupportsTruncate {
    private final PythonDataSourceV2 source;
    private final LogicalWriteInfo info;
    private WriteBuilder python;
    private boolean isTruncate;

    Builder(WriteBuilder python, PythonDataSourceV2 source, LogicalWriteInfo info) {
      this.python = python;
      this.source = source;
      this.info = info;
    }

    @Override
    public WriteBuilder truncate() {
      isTruncate = true;
      python = ((SupportsTruncate) python).truncate();
      return this;
    }

    @Override
    public Write build() {
      return new RecordsWrite(python.build(), source, info, isTruncate);
    }
  }
}
