package brokerless.spark;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;

/** Numbers, and a byte for each that says whether it is null, unless none is. */
abstract class NumbersVector extends NativeVector {
  /** The address of the numbers. */
  protected long values;

  private long nulls;

  NumbersVector(DataType type) {
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
}
