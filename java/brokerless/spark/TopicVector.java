package brokerless.spark;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** The topic: the same in all rows of a chunk. */
final class TopicVector extends NativeVector {
  private UTF8String topic;

  TopicVector(DataType type) {
    super(type);
  }

  @Override
  void show(long[] addresses, int first) {
    byte[] name = new byte[(int) addresses[first + 1]];
    Platform.copyMemory(null, addresses[first], name, Platform.BYTE_ARRAY_OFFSET, name.length);
    topic = addresses[first + 2] == 0 ? UTF8String.fromBytes(name) : null;
  }

  @Override
  public boolean hasNull() {
    return topic == null;
  }

  @Override
  public boolean isNullAt(int row) {
    return topic == null;
  }

  @Override
  public UTF8String getUTF8String(int row) {
    return topic;
  }
}
