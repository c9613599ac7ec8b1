package brokerless.spark;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The native library, out of the jar. */
final class Native {
  /** The addresses of each column that is not decoded: {@code rust/jvm/src/column.rs}. */
  static final int ADDRESSES = 5;

  /** The counts of a reader: {@code rust/jvm/src/reader.rs}. */
  static final int COUNTS = 3;

  private static final Logger LOG = LoggerFactory.getLogger(Native.class);
  private static final Throwable FAILURE = load();

  private Native() {}

  /** Whether the library could be loaded. If not, says so once. */
  static boolean isAvailable() {
    return FAILURE == null;
  }

  /** Refuses to go on without the library. Only the driver can read in Python instead. */
  static void check() throws IOException {
    if (FAILURE != null) {
      throw new IOException(
          "this executor cannot load brokerless's native library ("
              + FAILURE.getMessage()
              + "): set java.io.tmpdir to a directory that allows it, or leave out the jar",
          FAILURE);
    }
  }

  private static Throwable load() {
    String name = System.mapLibraryName("brokerless_jvm");
    String resource = "/native/" + System.getProperty("os.arch") + "/" + name;
    try (InputStream library = Native.class.getResourceAsStream(resource)) {
      if (library == null) {
        throw new IOException("the jar has no library for this platform: " + resource);
      }
      // A name of its own: another class loader may have loaded the library, too.
      Path file = Files.createTempFile("brokerless", name);
      try {
        Files.copy(library, file, StandardCopyOption.REPLACE_EXISTING);
        System.load(file.toString());
      } finally {
        // It stays mapped.
        Files.delete(file);
      }
      return null;
    } catch (IOException | UnsatisfiedLinkError | SecurityException error) {
      LOG.warn("brokerless reads and writes in Python: " + error.getMessage());
      return error;
    }
  }

  /** Returns the tasks that may have rows within bounds, which are JSON. */
  static native byte[][] narrow(byte[][] tasks, byte[] bounds) throws IOException;

  /**
   * Opens a reader of a task for these columns, and returns its handle: for one thread, up to {@link #close}. {@code
   * decoding} is what the planner wrote of a decoded read; it is empty for any other. {@code criteria} are those of {@link
   * Criterion#json}.
   */
  static native long open(byte[] task, String[] columns, byte[] decoding, byte[] criteria)
      throws IOException;

  /**
   * Decodes the next rows, and returns their number; -1 at the end. {@code out} gets the addresses of the columns, which
   * are valid until the next call, and then the number and the bytes of their Kafka batches, and the offsets lost so far.
   */
  static native int next(long handle, long[] out) throws IOException;

  /** Returns what the user should know of the rows so far. */
  static native String[] warnings(long handle) throws IOException;

  /**
   * Closes the file of a reader, which has no next rows then. Its last addresses are valid until {@link #close}.
   *
   * @return the bytes at these addresses
   */
  static native long stop(long handle);

  /** Closes a reader. */
  static native void close(long handle);

  /**
   * Opens a writer of one attempt at a task for rows with fields of these names, and returns its handle: for one thread,
   * up to {@link #closeWriter}. {@code query} is the streaming query, or empty; {@code unique} are 32 hexadecimal digits
   * that no other attempt has.
   */
  static native long openWriter(byte[] task, String[] names, String query, String unique)
      throws IOException;

  /** Writes a block of rows, each after its size in bytes, in a word. */
  static native void write(long handle, long address, long size) throws IOException;

  /** Returns what the commit needs to know, as JSON. */
  static native byte[] finish(long handle) throws IOException;

  /** Removes what was written. */
  static native void abort(long handle);

  /** Closes a writer. */
  static native void closeWriter(long handle);
}
