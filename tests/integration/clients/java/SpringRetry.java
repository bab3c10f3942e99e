import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.EnableKafkaRetryTopic;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.annotation.RetryableTopic;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.retrytopic.DltStrategy;
import org.springframework.retry.annotation.Backoff;
import org.springframework.scheduling.TaskScheduler;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

/**
 * Has Spring send to a retry topic: SpringRetry SERVERS TOPIC, as properties of the JVM (-Dservers, -Dtopic, -Ddelay).
 *
 * <p>A listener on TOPIC fails; the program ends when there is a record on TOPIC-retry.
 */
public class SpringRetry {
    static final String SERVERS = System.getProperty("servers");
    static final String TOPIC = System.getProperty("topic");

    static class Orders {
        @RetryableTopic(
                attempts = "3",
                backoff = @Backoff(delayExpression = "#{T(Long).parseLong(systemProperties['delay'])}"),
                autoCreateTopics = "false",
                dltStrategy = DltStrategy.NO_DLT,
                kafkaTemplate = "template")
        @KafkaListener(id = "orders", topics = "${topic}")
        void listen(ConsumerRecord<String, String> order) {
            throw new IllegalStateException("the shop is closed");
        }
    }

    @Configuration
    @EnableKafkaRetryTopic
    static class Setup {
        @Bean
        Orders orders() {
            return new Orders();
        }

        @Bean
        TaskScheduler scheduler() {
            return new ThreadPoolTaskScheduler();
        }

        @Bean
        KafkaTemplate<String, String> template() {
            return new KafkaTemplate<>(new DefaultKafkaProducerFactory<>(Map.of(
                    ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, SERVERS,
                    ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, StringSerializer.class,
                    ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, StringSerializer.class)));
        }

        @Bean
        ConcurrentKafkaListenerContainerFactory<String, String> kafkaListenerContainerFactory() {
            var factory = new ConcurrentKafkaListenerContainerFactory<String, String>();
            factory.setConsumerFactory(new DefaultKafkaConsumerFactory<>(consumer()));
            return factory;
        }
    }

    static Map<String, Object> consumer() {
        return Map.of(
                ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, SERVERS,
                ConsumerConfig.GROUP_ID_CONFIG, "orders-" + UUID.randomUUID(),
                ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest",
                ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class,
                ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class);
    }

    public static void main(String[] args) throws Exception {
        try (var context = new AnnotationConfigApplicationContext(Setup.class);
                var retries = new KafkaConsumer<String, String>(consumer())) {
            var order = new ProducerRecord<>(TOPIC, "order-42", "one cup of tea");
            order.headers().add("trace", new byte[] {'1'});
            context.getBean(KafkaTemplate.class).send(order).get();
            retries.subscribe(List.of(TOPIC + "-retry"));
            for (int left = 60; left > 0 && retries.poll(Duration.ofSeconds(1)).isEmpty(); left--) {}
        }
        System.exit(0);
    }
}
