package brokerless.spark;

import org.apache.spark.sql.types.DataType;

/** The partition: the same in all rows of a chunk. */
final class PartitionVector extends NativeVector {
  private int partition;
  private boolean isNull;

  PartitionVector(DataType type) {
    super(type);
  }

  @Override
  void show(long[] addresses, int first) {
    partition = (int) addresses[first];
    isNull = addresses[first + 2] != 0;
  }

  @Override
  public boolean hasNull() {
    return isNull;
  }

  @Override
  public boolean isNullAt(int row) {
    return isNull;
  }

  @Override
  public int getInt(int row) {
    return partition;
  }
}
