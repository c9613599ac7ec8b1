package brokerless.spark;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.UUID;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

/** Writes the rows of one attempt at a task: gathers them as Spark holds them, for the native library to encode. */
final class PartWriter implements DataWriter<InternalRow> {
  /** The bytes of rows that wait, as in {@code brokerless.staging.parts}. */
  private static final long BLOCK = 4 << 20;

  /** The size of a row comes before it. */
  private static final long WORD = 8;

  private final UnsafeProjection projection;
  private long handle;
  private long address;
  private long capacity;
  private long used;

  private PartWriter(byte[] task, StructType columns, String query) throws IOException {
    projection = UnsafeProjection.create(columns);
    String unique = UUID.randomUUID().toString().replace("-", "");
    capacity = BLOCK;
    address = Platform.allocateMemory(capacity);
    try {
      handle = Native.openWriter(task, columns.fieldNames(), query, unique);
    } finally {
      if (handle == 0) {
        Platform.freeMemory(address);
      }
    }
  }

  @Override
  public void write(InternalRow given) {
    UnsafeRow row = given instanceof UnsafeRow unsafe ? unsafe : projection.apply(given);
    int size = row.getSizeInBytes();
    if (used + WORD + size > capacity) {
      writeOut();
      if (WORD + size > capacity) {
        address = Platform.reallocateMemory(address, capacity, WORD + size);
        capacity = WORD + size;
      }
    }
    Platform.putLong(null, address + used, size);
    Platform.copyMemory(row.getBaseObject(), row.getBaseOffset(), null, address + used + WORD, size);
    used += WORD + size;
  }

  private void writeOut() {
    if (handle == 0) {
      throw new IllegalStateException("this writer is closed");
    }
    try {
      Native.write(handle, address, used);
    } catch (IOException error) {
      throw TaskFailure.of(error);
    }
    used = 0;
  }

  @Override
  public WriterCommitMessage commit() throws IOException {
    writeOut();
    return PythonWriterCommitMessage.apply(pickled(Native.finish(handle)));
  }

  /** The call {@code brokerless.spark.sink.written.written(json)}, as Python's pickle writes it. */
  private static byte[] pickled(byte[] json) {
    byte[] function = "cbrokerless.spark.sink.written\nwritten\n".getBytes(StandardCharsets.US_ASCII);
    ByteArrayOutputStream call = new ByteArrayOutputStream();
    call.writeBytes(new byte[] {(byte) 0x80, 3}); // PROTO
    call.writeBytes(function); // GLOBAL
    call.write('B'); // BINBYTES
    call.writeBytes(ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).putInt(json.length).array());
    call.writeBytes(json);
    call.writeBytes(new byte[] {(byte) 0x85, 'R', '.'}); // TUPLE1, REDUCE, STOP
    return call.toByteArray();
  }

  @Override
  public void abort() {
    if (handle != 0) {
      Native.abort(handle);
    }
  }

  @Override
  public void close() {
    if (handle != 0) {
      Native.closeWriter(handle);
      Platform.freeMemory(address);
      handle = 0;
      // A row after this finds no room, and is refused.
      capacity = 0;
    }
  }

  /** Makes a writer of a task in an executor. */
  static final class Factory implements DataWriterFactory, StreamingDataWriterFactory {
    private static final long serialVersionUID = 1;

    /** The local property with the id of a streaming query, which lives as long as its checkpoint. */
    private static final String QUERY = "sql.streaming.queryId";

    private final byte[] task;
    private final StructType columns;

    Factory(byte[] task, StructType columns) {
      this.task = task;
      this.columns = columns;
    }

    @Override
    public DataWriter<InternalRow> createWriter(int partition, long taskId) {
      return writer("");
    }

    @Override
    public DataWriter<InternalRow> createWriter(int partition, long taskId, long epoch) {
      String query = TaskContext.get().getLocalProperty(QUERY);
      if (query == null) {
        throw new IllegalStateException("Spark does not say which query this is: no local property " + QUERY);
      }
      return writer(query);
    }

    private DataWriter<InternalRow> writer(String query) {
      try {
        Native.check();
        return new PartWriter(task, columns, query);
      } catch (IOException error) {
        throw TaskFailure.of(error);
      }
    }
  }
}
