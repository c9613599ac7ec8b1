package brokerless.spark;

import java.util.Set;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/** A column of the native library's memory. It is made once a task, and shows another chunk each time. */
abstract class NativeVector extends ColumnVector {
  /** What stands for the memory that is shown: see {@link RecordsReader#close}. */
  Object memory;

  NativeVector(DataType type) {
    super(type);
  }

  /** Shows the arrays at the addresses from {@code first} on: {@code rust/jvm/src/column.rs} says which. */
  abstract void show(long[] addresses, int first);

  /** The number of addresses that it shows. */
  int addresses() {
    return Native.ADDRESSES;
  }

  static NativeVector of(StructField column, Set<String> decoded) {
    if (decoded.contains(column.name())) {
      return new DecodedVector(column.dataType());
    }
    return switch (column.name()) {
      case "key", "value" -> new BytesVector(column.dataType());
      case "topic" -> new TopicVector(column.dataType());
      case "partition" -> new PartitionVector(column.dataType());
      case "headers" -> new HeadersVector(column.dataType());
      case "compression" -> new CodecVector(column.dataType());
      case "offset", "timestamp", "baseOffset", "position", "producerId" ->
          new LongsVector(column.dataType());
      default -> new IntsVector(column.dataType());
    };
  }

  @Override
  public void close() {}

  @Override
  public boolean hasNull() {
    return true;
  }

  @Override
  public int numNulls() {
    throw new UnsupportedOperationException();
  }

  @Override
  public boolean getBoolean(int row) {
    throw new UnsupportedOperationException();
  }

  @Override
  public byte getByte(int row) {
    throw new UnsupportedOperationException();
  }

  @Override
  public short getShort(int row) {
    throw new UnsupportedOperationException();
  }

  @Override
  public int getInt(int row) {
    throw new UnsupportedOperationException();
  }

  @Override
  public long getLong(int row) {
    throw new UnsupportedOperationException();
  }

  @Override
  public float getFloat(int row) {
    throw new UnsupportedOperationException();
  }

  @Override
  public double getDouble(int row) {
    throw new UnsupportedOperationException();
  }

  @Override
  public ColumnarArray getArray(int row) {
    throw new UnsupportedOperationException();
  }

  @Override
  public ColumnarMap getMap(int row) {
    throw new UnsupportedOperationException();
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    throw new UnsupportedOperationException();
  }

  @Override
  public UTF8String getUTF8String(int row) {
    throw new UnsupportedOperationException();
  }

  @Override
  public byte[] getBinary(int row) {
    throw new UnsupportedOperationException();
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    throw new UnsupportedOperationException();
  }
}
