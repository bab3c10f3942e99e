import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Delayed messages as a plain Kafka Streams application has them: a RocksDB store with a changelog, ordered by due
 * time, and a punctuator that forwards what is due.
 *
 * <p>Arguments: bootstrap servers, application id, requests topic, destination, guarantee, state directory, punctuator
 * interval in milliseconds, threads. No ids, commands, events or account: the least that holds and delivers.
 */
public final class DelayStreams {
    private static final String STORE = "delays";

    public static void main(String[] args) {
        String requests = args[2], destination = args[3];
        Duration every = Duration.ofMillis(Long.parseLong(args[6]));
        var bytes = Serdes.ByteArray();
        var store = Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(STORE), Serdes.Bytes(), bytes)
            .withLoggingEnabled(java.util.Map.of());
        var topology = new Topology();
        topology.addSource("requests", bytes.deserializer(), bytes.deserializer(), requests);
        topology.addProcessor("hold", () -> new Hold(every), "requests");
        topology.addStateStore(store, "hold");
        topology.addSink("destination", destination, bytes.serializer(), bytes.serializer(), "hold");

        var settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, args[4]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[5]);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, Integer.parseInt(args[7]));
        settings.put(StreamsConfig.POLL_MS_CONFIG, 10);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        // Streams' own default is 100 ms: nothing would be on time.
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.LINGER_MS_CONFIG), 0);
        if (args[4].equals(StreamsConfig.EXACTLY_ONCE_V2)) {
            settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 10);
        }
        var streams = new KafkaStreams(topology, settings);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }

    /** Holds requests of its partition under (due, offset) and forwards them when they are due. */
    private static final class Hold implements Processor<byte[], byte[], byte[], byte[]> {
        private final Duration every;
        private ProcessorContext<byte[], byte[]> context;
        private KeyValueStore<Bytes, byte[]> store;
        /** Nothing is due before: a range from 0 on would pass over the tombstones of all that was delivered. */
        private long low = 0;

        Hold(Duration every) {
            this.every = every;
        }

        @Override
        public void init(ProcessorContext<byte[], byte[]> given) {
            context = given;
            store = given.getStateStore(STORE);
            given.schedule(every, PunctuationType.WALL_CLOCK_TIME, this::deliver);
        }

        @Override
        public void process(Record<byte[], byte[]> record) {
            long due = Long.parseLong(text(record.headers(), "delay-at"));
            long offset = context.recordMetadata().orElseThrow().offset();
            byte[] key = record.key(), value = record.value();
            var row = ByteBuffer.allocate(4 + key.length + value.length).putInt(key.length).put(key).put(value);
            low = Math.min(low, due);
            store.put(Bytes.wrap(ByteBuffer.allocate(16).putLong(due).putLong(offset).array()), row.array());
        }

        private void deliver(long now) {
            Bytes from = bound(low), to = bound(now + 1);
            try (KeyValueIterator<Bytes, byte[]> due = store.range(from, to)) {
                while (due.hasNext()) {
                    var found = due.next();
                    long dueAt = ByteBuffer.wrap(found.key.get()).getLong();
                    var row = ByteBuffer.wrap(found.value);
                    byte[] key = new byte[row.getInt()];
                    row.get(key);
                    byte[] value = new byte[row.remaining()];
                    row.get(value);
                    Headers headers = new RecordHeaders();
                    headers.add("delay-due", Long.toString(dueAt).getBytes(StandardCharsets.UTF_8));
                    context.forward(new Record<>(key, value, now, headers));
                    store.delete(found.key);
                }
            }
            low = now + 1;
        }

        private static Bytes bound(long due) {
            return Bytes.wrap(ByteBuffer.allocate(8).putLong(due).array());
        }

        private static String text(Headers headers, String name) {
            return new String(headers.lastHeader(name).value(), StandardCharsets.UTF_8);
        }
    }
}
