package brokerless.spark;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;

/** 64-bit numbers. */
final class LongsVector extends NumbersVector {
  LongsVector(DataType type) {
    super(type);
  }

  @Override
  public long getLong(int row) {
    return Platform.getLong(null, values + 8L * row);
  }
}
