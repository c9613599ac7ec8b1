package brokerless.spark;

import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.unsafe.Platform;

/** The headers of each row: keys and values, and the number of headers up to the end of each row. No headers are null. */
final class HeadersVector extends NativeVector {
  private final Pairs pairs;
  private long ends;

  HeadersVector(DataType type) {
    super(type);
    pairs = new Pairs((StructType) ((ArrayType) type).elementType());
  }

  @Override
  void show(long[] addresses, int first) {
    ends = addresses[first];
    pairs.show(addresses, first + 1);
  }

  private int end(long row) {
    return Platform.getInt(null, ends + 4 * row);
  }

  @Override
  public boolean isNullAt(int row) {
    return end(row) == end(row + 1L);
  }

  @Override
  public ColumnarArray getArray(int row) {
    int start = end(row);
    return new ColumnarArray(pairs, start, end(row + 1L) - start);
  }

  /** The headers of all rows. */
  private static final class Pairs extends NativeVector {
    private final BytesVector keys;
    private final BytesVector values;

    Pairs(StructType type) {
      super(type);
      keys = new BytesVector(type.fields()[0].dataType());
      values = new BytesVector(type.fields()[1].dataType());
    }

    @Override
    void show(long[] addresses, int first) {
      keys.show(addresses, first);
      values.show(addresses, first + 2);
    }

    @Override
    public boolean isNullAt(int row) {
      return false;
    }

    @Override
    public ColumnVector getChild(int ordinal) {
      return ordinal == 0 ? keys : values;
    }
  }
}
