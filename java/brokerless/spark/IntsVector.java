package brokerless.spark;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;

/** Numbers of at most 32 bits, each in 32, and a byte for each that says whether it is null, unless none is. */
final class IntsVector extends NativeVector {
  private long values;
  private long nulls;

  IntsVector(DataType type) {
    super(type);
  }

  @Override
  void show(long[] addresses, int first) {
    values = addresses[first];
    nulls = addresses[first + 1];
  }

  @Override
  public boolean hasNull() {
    return nulls != 0;
  }

  @Override
  public boolean isNullAt(int row) {
    return nulls != 0 && Platform.getByte(null, nulls + row) != 0;
  }

  @Override
  public int getInt(int row) {
    return Platform.getInt(null, values + 4L * row);
  }

  @Override
  public short getShort(int row) {
    return (short) getInt(row);
  }

  @Override
  public byte getByte(int row) {
    return (byte) getInt(row);
  }

  @Override
  public boolean getBoolean(int row) {
    return getInt(row) != 0;
  }
}
