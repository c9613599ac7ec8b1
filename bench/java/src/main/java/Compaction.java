import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** Kafka's own cleaner, unthrottled, over one partition directory that was shut down cleanly: DIRECTORY SEGMENT_BYTES. */
public class Compaction {
    /** The broker's defaults: log.cleaner.dedupe.buffer.size, half of log.cleaner.io.buffer.size, max.message.bytes. */
    static final int DEDUPE_BYTES = 128 << 20, IO_BYTES = 256 << 10, MAX_IO_BYTES = 1048588;

    public static void main(String[] args) throws Exception {
        LogConfig config = new LogConfig(Map.of("cleanup.policy", "compact", "segment.bytes", args[1]));
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        UnifiedLog log = UnifiedLog.create(Path.of(args[0]).toFile(), config, 0, 0, scheduler, new BrokerTopicStats(),
            Time.SYSTEM, 300_000, new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1),
            true, Optional.empty());
        log.updateHighWatermark(log.logEndOffset());
        Throttler throttler = new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", Time.SYSTEM);
        Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(DEDUPE_BYTES), IO_BYTES, MAX_IO_BYTES, 0.9, throttler,
            Time.SYSTEM, partition -> { });
        long next = cleaner.clean(new LogToClean(log, 0, log.activeSegment().baseOffset(), true)).getKey();
        if (next != log.activeSegment().baseOffset()) {
            throw new IllegalStateException("cleaned up to " + next + " only");
        }
        log.close();
        System.exit(0);
    }
}
