package brokerless.spark;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** The names of codecs, by Kafka's ids. A negative id is null. */
final class CodecVector extends NativeVector {
  /** {@code CompressionType}, in the order of its ids. */
  private static final UTF8String[] NAMES = {
    UTF8String.fromString("none"),
    UTF8String.fromString("gzip"),
    UTF8String.fromString("snappy"),
    UTF8String.fromString("lz4"),
    UTF8String.fromString("zstd")
  };

  private long ids;

  CodecVector(DataType type) {
    super(type);
  }

  @Override
  void show(long[] addresses, int first) {
    ids = addresses[first];
  }

  private int id(int row) {
    return Platform.getInt(null, ids + 4L * row);
  }

  @Override
  public boolean isNullAt(int row) {
    return id(row) < 0;
  }

  @Override
  public UTF8String getUTF8String(int row) {
    return isNullAt(row) ? null : NAMES[id(row)];
  }
}
