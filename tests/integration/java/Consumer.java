import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.ArrayList;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** A consumer that knows Punctual's headers alone: of the acknowledged queue, or of retries. */
class Consumer {
    static KafkaProducer<byte[], byte[]> producer;
    static String requests, topic, group;
    static Path done;

    public static void main(String[] words) throws Exception {
        String mode = words[0], kafka = words[1];
        requests = words[2];
        topic = words[3];
        group = words[4];
        done = Path.of(words[5]);
        producer = new KafkaProducer<>(Map.of("bootstrap.servers", kafka), new ByteArraySerializer(), new ByteArraySerializer());
        Map<String, Object> reading = Map.of("bootstrap.servers", kafka, "group.id", group,
                "enable.auto.commit", "false", "auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(reading, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (true) {
                var records = consumer.poll(Duration.ofMillis(200));
                if (mode.equals("queue")) {
                    List<Future<RecordMetadata>> started = new ArrayList<>();
                    for (var record : records) started.add(producer.send(start(record)));
                    for (var one : started) one.get();
                    consumer.commitSync();
                    for (var record : records) if (process(record)) producer.send(end(record));
                } else {
                    for (var record : records) if (!process(record)) producer.send(retry(record)).get();
                    consumer.commitSync();
                }
            }
        }
    }

    /** Process a record; of each third one the first two attempts fail. */
    static boolean process(ConsumerRecord<byte[], byte[]> record) throws Exception {
        int number = Integer.parseInt(new String(record.value()));
        boolean fails = number % 3 == 0 && attempt(record) < 3;
        String line = number + " " + attempt(record) + (fails ? " failed\n" : " done\n");
        Files.writeString(done, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        return !fails;
    }

    static int attempt(ConsumerRecord<byte[], byte[]> record) {
        Header counted = record.headers().lastHeader("delay-attempt");
        return counted == null ? 1 : Integer.parseInt(new String(counted.value()));
    }

    static String place(ConsumerRecord<byte[], byte[]> record) {
        return record.topic() + "-" + record.partition() + "-" + record.offset();
    }

    static ProducerRecord<byte[], byte[]> start(ConsumerRecord<byte[], byte[]> record) {
        Headers headers = new RecordHeaders();
        for (Header header : record.headers()) if (!header.key().startsWith("delay-")) headers.add(header);
        add(headers, "delay-to", topic);
        add(headers, "delay-after", "PT1.5S");
        add(headers, "delay-id", group + ":" + place(record));
        add(headers, "delay-attempt", "" + (attempt(record) + 1));
        return new ProducerRecord<>(requests, null, record.key(), record.value(), headers);
    }

    static ProducerRecord<byte[], byte[]> end(ConsumerRecord<byte[], byte[]> record) {
        Headers headers = new RecordHeaders();
        add(headers, "delay-op", "cancel");
        add(headers, "delay-id", group + ":" + place(record));
        return new ProducerRecord<>(requests, null, record.key(), null, headers);
    }

    static ProducerRecord<byte[], byte[]> retry(ConsumerRecord<byte[], byte[]> record) {
        Headers headers = new RecordHeaders(record.headers());
        if (headers.lastHeader("delay-source") == null) add(headers, "delay-source", place(record));
        add(headers, "delay-to", topic);
        add(headers, "delay-retry", "exponential 300ms 2 1h");
        add(headers, "delay-max-attempts", "8");
        return new ProducerRecord<>(requests, null, record.key(), record.value(), headers);
    }

    static void add(Headers headers, String name, String value) {
        headers.add(name, value.getBytes());
    }
}
