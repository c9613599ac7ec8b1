package brokerless.spark;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;

/** Numbers of at most 32 bits, each in 32. */
final class IntsVector extends NumbersVector {
  IntsVector(DataType type) {
    super(type);
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
