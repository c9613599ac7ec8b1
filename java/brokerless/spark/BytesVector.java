package brokerless.spark;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** Byte strings: the end of each after a 0, with the sign bit set for null, and the bytes of all. */
final class BytesVector extends NativeVector {
  private long ends;
  private long data;

  BytesVector(DataType type) {
    super(type);
  }

  @Override
  void show(long[] addresses, int first) {
    ends = addresses[first];
    data = addresses[first + 1];
  }

  private int end(long row) {
    return Platform.getInt(null, ends + 4 * row) & Integer.MAX_VALUE;
  }

  @Override
  public boolean isNullAt(int row) {
    return Platform.getInt(null, ends + 4 * (row + 1L)) < 0;
  }

  @Override
  public byte[] getBinary(int row) {
    int start = end(row);
    int after = Platform.getInt(null, ends + 4 * (row + 1L));
    if (after < 0) {
      return null;
    }
    byte[] bytes = new byte[after - start];
    Platform.copyMemory(null, data + start, bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length);
    return bytes;
  }

  @Override
  public UTF8String getUTF8String(int row) {
    if (isNullAt(row)) {
      return null;
    }
    int start = end(row);
    return UTF8String.fromAddress(null, data + start, end(row + 1L) - start);
  }
}
