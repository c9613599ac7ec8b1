import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Consumers, driven by lines on stdin: ADDRESS TOPIC PARTITIONS CLIENTS RECORDS. Each client reads all partitions from
 * their beginnings until it has so many records. The answer is a line: the time of the first record in seconds since
 * 1970, the bytes, and the seconds that each client took.
 */
public class Consumers {
    public static void main(String[] args) throws Exception {
        ExecutorService threads = Executors.newCachedThreadPool();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            int partitions = Integer.parseInt(words[2]);
            long wanted = Long.parseLong(words[4]);
            List<Future<double[]>> running = new ArrayList<>();
            for (int i = 0; i < Integer.parseInt(words[3]); i++) {
                Callable<double[]> client = () -> read(words[0], words[1], partitions, wanted);
                running.add(threads.submit(client));
            }
            double first = Double.MAX_VALUE;
            long bytes = 0;
            StringBuilder seconds = new StringBuilder();
            for (Future<double[]> client : running) {
                double[] found = client.get();
                first = Math.min(first, found[0]);
                bytes += (long) found[1];
                seconds.append(' ').append(found[2]);
            }
            System.out.printf("%.6f %d%s%n", first, bytes, seconds);
        }
        System.exit(0);
    }

    static double[] read(String address, String topic, int partitions, long wanted) {
        // A server that is starting is asked again at once: what is measured is the server, not how long a client rests.
        Map<String, Object> settings = Map.of("bootstrap.servers", address, "reconnect.backoff.ms", 10,
            "reconnect.backoff.max.ms", 10, "retry.backoff.ms", 10, "retry.backoff.max.ms", 10,
            "enable.auto.commit", false);
        long start = System.nanoTime();
        double first = 0;
        long count = 0;
        long bytes = 0;
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> all = new ArrayList<>();
            for (int i = 0; i < partitions; i++) {
                all.add(new TopicPartition(topic, i));
            }
            consumer.assign(all);
            consumer.seekToBeginning(all);
            while (count < wanted) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(1000))) {
                    if (count++ == 0) {
                        Instant now = Instant.now();
                        first = now.getEpochSecond() + now.getNano() / 1e9;
                    }
                    bytes += record.serializedValueSize();
                }
            }
        }
        return new double[] {first, bytes, (System.nanoTime() - start) / 1e9};
    }
}
