import static java.util.stream.StreamSupport.stream;

import java.math.BigInteger;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.ToLongFunction;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.kafka.listener.KafkaMessageListenerContainer;
import org.springframework.kafka.listener.MessageListener;
import org.springframework.kafka.retrytopic.RetryTopicHeaders;
import org.springframework.util.backoff.FixedBackOff;

/** Has a listener on TOPIC fail whose error handler sends to TOPIC-retry (-Dservers, -Dtopic, -Ddelay). */
public class RetryByHandler {
    static DefaultErrorHandler retries(KafkaTemplate<?, ?> template, int attempts, Duration first) {
        var header = RetryTopicHeaders.DEFAULT_HEADER_BACKOFF_TIMESTAMP;
        ToLongFunction<ConsumerRecord<?, ?>> failed =
                record -> 1 + stream(record.headers().headers(header).spliterator(), false).count();
        var recoverer = new DeadLetterPublishingRecoverer(template, (record, error) -> {
            var suffix = failed.applyAsLong(record) < attempts ? "-retry" : "-dlt";
            return new TopicPartition(record.topic() + suffix, -1);
        });
        recoverer.addHeadersFunction((record, error) -> {
            long due = System.currentTimeMillis() + (first.toMillis() << (failed.applyAsLong(record) - 1));
            return new RecordHeaders().add(header, BigInteger.valueOf(due).toByteArray());
        });
        return new DefaultErrorHandler(recoverer, new FixedBackOff(0, 0));
    }

    static Map<String, Object> consumer(String servers) {
        return Map.of(
                "bootstrap.servers", servers,
                "group.id", "orders-" + UUID.randomUUID(),
                "auto.offset.reset", "earliest",
                "key.deserializer", StringDeserializer.class,
                "value.deserializer", StringDeserializer.class);
    }

    public static void main(String[] args) throws Exception {
        String servers = System.getProperty("servers"), topic = System.getProperty("topic");
        var template = new KafkaTemplate<>(new DefaultKafkaProducerFactory<String, String>(Map.of(
                "bootstrap.servers", servers,
                "key.serializer", StringSerializer.class,
                "value.serializer", StringSerializer.class)));
        var properties = new ContainerProperties(topic);
        properties.setMessageListener((MessageListener<String, String>) order -> {
            throw new IllegalStateException("the shop is closed");
        });
        var factory = new DefaultKafkaConsumerFactory<String, String>(consumer(servers));
        var container = new KafkaMessageListenerContainer<>(factory, properties);
        container.setCommonErrorHandler(retries(template, 3, Duration.ofMillis(Long.getLong("delay"))));
        container.start();
        var order = new ProducerRecord<>(topic, "order-42", "one cup of tea");
        order.headers().add("trace", new byte[] {'1'});
        template.send(order).get();
        try (var retries = new KafkaConsumer<String, String>(consumer(servers))) {
            retries.subscribe(List.of(topic + "-retry"));
            for (int left = 60; left > 0 && retries.poll(Duration.ofSeconds(1)).isEmpty(); left--) {}
        }
        System.exit(0);
    }
}
