import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.CloseableIterator;
import org.apache.kafka.common.utils.BufferSupplier;

/** Kafka's own record classes: they write the logs that are measured, and are measured themselves. */
public class Bench {
    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "write" -> write(Path.of(args[1]), args[2], Integer.parseInt(args[3]), Integer.parseInt(args[4]),
                Integer.parseInt(args[5]), Integer.parseInt(args[6]), Integer.parseInt(args[7]),
                args.length > 8 ? Integer.parseInt(args[8]) : 1_000_000);
            case "read" -> read(Path.of(args[1]));
            case "build" -> build(Path.of(args[1]));
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    /** A log of batches that close after batchRecords records or, if that is 0, at batchBytes bytes. */
    static void write(Path file, String codec, int records, int valueBytes, int batchRecords, int batchBytes, int headers,
            int keys) throws Exception {
        Random random = new Random(1);
        String[] words = random.ints(500, 3, 10)
            .mapToObj(n -> random.ints(n, 'a', 'z' + 1).collect(StringBuilder::new, StringBuilder::appendCodePoint,
                StringBuilder::append).toString())
            .toArray(String[]::new);
        byte[][] values = new byte[2000][];
        for (int i = 0; i < values.length; i++) {
            StringBuilder text = new StringBuilder();
            while (text.length() < valueBytes) {
                text.append(words[random.nextInt(words.length)]).append(' ');
            }
            values[i] = text.substring(0, valueBytes).getBytes();
        }
        Header[] all = {new RecordHeader("traceparent", "00-4bf92f3577b34da6".getBytes()),
            new RecordHeader("source", "orders".getBytes())};
        Header[] some = java.util.Arrays.copyOf(all, headers);
        try (var out = Files.newByteChannel(file, java.nio.file.StandardOpenOption.CREATE,
                java.nio.file.StandardOpenOption.TRUNCATE_EXISTING, java.nio.file.StandardOpenOption.WRITE)) {
            long offset = 0;
            while (offset < records) {
                ByteBuffer buffer = ByteBuffer.allocate(1 << 20);
                // The limit is on what goes in, so that batches of all codecs hold the same records.
                int limit = batchRecords > 0 ? Integer.MAX_VALUE : batchBytes;
                MemoryRecordsBuilder plain = builder(ByteBuffer.allocate(1 << 10), Compression.NONE, offset, limit);
                MemoryRecordsBuilder builder =
                    builder(buffer, Compression.of(CompressionType.forName(codec)).build(), offset, Integer.MAX_VALUE);
                int count = 0;
                while (offset < records && (batchRecords == 0 || count < batchRecords)) {
                    byte[] key = String.format("key-%08d", random.nextInt(keys)).getBytes();
                    byte[] value = values[random.nextInt(values.length)];
                    long timestamp = 1_700_000_000_000L + offset / 3;
                    if (batchRecords == 0) {
                        if (!plain.hasRoomFor(timestamp, key, value, some)) {
                            break;
                        }
                        plain.append(timestamp, key, value, some);
                    }
                    builder.append(timestamp, key, value, some);
                    offset++;
                    count++;
                }
                ByteBuffer bytes = builder.build().buffer();
                while (bytes.hasRemaining()) {
                    out.write(bytes);
                }
            }
        }
    }

    static MemoryRecordsBuilder builder(ByteBuffer buffer, Compression compression, long offset, int limit) {
        return new MemoryRecordsBuilder(buffer, RecordBatch.MAGIC_VALUE_V2, compression, TimestampType.CREATE_TIME, offset,
            RecordBatch.NO_TIMESTAMP, RecordBatch.NO_PRODUCER_ID, RecordBatch.NO_PRODUCER_EPOCH, RecordBatch.NO_SEQUENCE,
            false, false, 0, limit);
    }

    /** For each line on stdin, one pass as a consumer makes it, key and value copied out; prints its seconds. */
    static void read(Path file) throws Exception {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(Files.readAllBytes(file)));
        BufferSupplier buffers = BufferSupplier.create();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        long kept = 0;
        while (lines.readLine() != null) {
            long start = System.nanoTime();
            for (MutableRecordBatch batch : records.batches()) {
                batch.ensureValid();
                try (CloseableIterator<Record> iterator = batch.streamingIterator(buffers)) {
                    while (iterator.hasNext()) {
                        Record record = iterator.next();
                        kept += copy(record.key()).length + copy(record.value()).length + record.headers().length;
                    }
                }
            }
            System.out.println((System.nanoTime() - start) / 1e9);
        }
        if (kept == 42) {
            System.err.println("so that the copies are not optimised away");
        }
    }

    static byte[] copy(ByteBuffer field) {
        byte[] bytes = new byte[field.remaining()];
        field.get(bytes);
        return bytes;
    }

    record Row(long timestamp, byte[] key, byte[] value, Header[] headers) {}

    /** For each line on stdin, the batches of the file built again from their records, in one buffer; prints the seconds. */
    static void build(Path file) throws Exception {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(Files.readAllBytes(file)));
        List<List<Row>> batches = new ArrayList<>();
        CompressionType codec = CompressionType.NONE;
        for (MutableRecordBatch batch : records.batches()) {
            codec = batch.compressionType();
            List<Row> rows = new ArrayList<>();
            for (Record record : batch) {
                rows.add(new Row(record.timestamp(), copy(record.key()), copy(record.value()), record.headers()));
            }
            batches.add(rows);
        }
        Compression compression = Compression.of(codec).build();
        ByteBuffer buffer = ByteBuffer.allocate(1 << 20);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        long size = 0;
        while (lines.readLine() != null) {
            long start = System.nanoTime();
            for (List<Row> rows : batches) {
                buffer.clear();
                MemoryRecordsBuilder builder = builder(buffer, compression, 0, Integer.MAX_VALUE);
                for (Row row : rows) {
                    builder.append(row.timestamp, row.key, row.value, row.headers);
                }
                size += builder.build().sizeInBytes();
            }
            System.out.println((System.nanoTime() - start) / 1e9);
        }
        if (size == 42) {
            System.err.println("so that the batches are not optimised away");
        }
    }
}
