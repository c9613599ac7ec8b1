package brokerless.spark;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.Arrays;
import java.util.stream.Stream;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column of decoded keys or values, in the layout of Arrow: bits of what is not null, one or two arrays, and the
 * columns in it. A type that Spark lacks is changed when a value is taken, as {@code spark_types.py} changes columns.
 */
final class DecodedVector extends NativeVector {
  /** What the arrays hold: {@code rust/jvm/src/decoding.rs}. */
  private enum Layout {
    NULL,
    BOOLEAN,
    INT32,
    INT64,
    UINT32,
    UINT64,
    FLOAT32,
    FLOAT64,
    DECIMAL128,
    BYTES,
    STRUCT,
    LIST,
    MAP,
    MILLIS
  }

  private static final Layout[] LAYOUTS = Layout.values();

  /** The last time in milliseconds that Spark can hold. */
  private static final long MAX_MILLIS = Long.MAX_VALUE / 1000;

  /** The numbers that describe a column without the columns in it. */
  private static final int OWN_ADDRESSES = 4;

  private final DecodedVector[] children;
  private final int addresses;
  private Layout layout;
  private long validity;
  private long first;
  private long second;

  DecodedVector(DataType type) {
    super(type);
    children = inner(type).map(DecodedVector::new).toArray(DecodedVector[]::new);
    addresses = OWN_ADDRESSES + Arrays.stream(children).mapToInt(child -> child.addresses).sum();
  }

  /** The types of the columns in a column. */
  private static Stream<DataType> inner(DataType type) {
    if (type instanceof StructType struct) {
      return Arrays.stream(struct.fields()).map(StructField::dataType);
    }
    if (type instanceof ArrayType array) {
      return Stream.of(array.elementType());
    }
    return type instanceof MapType map ? Stream.of(map.keyType(), map.valueType()) : Stream.empty();
  }

  @Override
  int addresses() {
    return addresses;
  }

  @Override
  void show(long[] shown, int start) {
    layout = LAYOUTS[(int) shown[start]];
    validity = shown[start + 1];
    first = shown[start + 2];
    second = shown[start + 3];
    int next = start + OWN_ADDRESSES;
    for (DecodedVector child : children) {
      child.show(shown, next);
      next += child.addresses;
    }
  }

  private static boolean bit(long bits, int row) {
    return bits == 0 || (Platform.getByte(null, bits + (row >> 3)) >> (row & 7) & 1) != 0;
  }

  private int end(long row) {
    return Platform.getInt(null, first + 4 * row);
  }

  @Override
  public boolean isNullAt(int row) {
    return layout == Layout.NULL || !bit(validity, row) || layout == Layout.MILLIS && isBeyond(millis(row));
  }

  private long millis(int row) {
    return Platform.getLong(null, first + 8L * row);
  }

  private static boolean isBeyond(long millis) {
    return millis > MAX_MILLIS || millis < -MAX_MILLIS;
  }

  @Override
  public boolean getBoolean(int row) {
    return bit(first, row);
  }

  @Override
  public int getInt(int row) {
    return Platform.getInt(null, first + 4L * row);
  }

  @Override
  public long getLong(int row) {
    return switch (layout) {
      case UINT32 -> Integer.toUnsignedLong(Platform.getInt(null, first + 4L * row));
      case MILLIS -> millis(row) * 1000;
      default -> Platform.getLong(null, first + 8L * row);
    };
  }

  @Override
  public float getFloat(int row) {
    return Platform.getFloat(null, first + 4L * row);
  }

  @Override
  public double getDouble(int row) {
    return Platform.getDouble(null, first + 8L * row);
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    if (isNullAt(row)) {
      return null;
    }
    BigInteger unscaled;
    if (layout == Layout.UINT64) {
      unscaled = new BigInteger(Long.toUnsignedString(Platform.getLong(null, first + 8L * row)));
    } else {
      // Little-endian.
      long low = Platform.getLong(null, first + 16L * row);
      long high = Platform.getLong(null, first + 16L * row + 8);
      if (high == low >> 63) {
        return Decimal.apply(BigDecimal.valueOf(low, scale), precision, scale);
      }
      unscaled = BigInteger.valueOf(high).shiftLeft(64).add(new BigInteger(Long.toUnsignedString(low)));
    }
    return Decimal.apply(new BigDecimal(unscaled, scale), precision, scale);
  }

  @Override
  public UTF8String getUTF8String(int row) {
    if (isNullAt(row)) {
      return null;
    }
    int start = end(row);
    return UTF8String.fromAddress(null, second + start, end(row + 1L) - start);
  }

  @Override
  public byte[] getBinary(int row) {
    if (isNullAt(row)) {
      return null;
    }
    int start = end(row);
    byte[] bytes = new byte[end(row + 1L) - start];
    Platform.copyMemory(null, second + start, bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length);
    return bytes;
  }

  @Override
  public ColumnarArray getArray(int row) {
    int start = end(row);
    return isNullAt(row) ? null : new ColumnarArray(children[0], start, end(row + 1L) - start);
  }

  @Override
  public ColumnarMap getMap(int row) {
    int start = end(row);
    return isNullAt(row) ? null : new ColumnarMap(children[0], children[1], start, end(row + 1L) - start);
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    return children[ordinal];
  }
}
