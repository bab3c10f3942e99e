import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.kafka.support.serializer.JsonSerializer;

/** Sends the record that the delay service documents, with the serializer of its clients: SERVERS TOPIC TO DELAY_MS. */
public class AirtelProducer {
    public record Request(
            String topic,
            String key,
            Object value,
            Map<String, String> headers,
            long postTime,
            String failurePostCallbackUrl) {}

    public static void main(String[] args) throws Exception {
        String topic = args[1], to = args[2];
        long due = System.currentTimeMillis() + Long.parseLong(args[3]);
        Map<String, Object> config = Map.of(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        Map<String, Object> order = new LinkedHashMap<>();
        order.put("order", 42);
        order.put("amount", new BigDecimal("1.10"));
        order.put("name", "déjà");
        Map<String, String> headers = new LinkedHashMap<>();
        headers.put("trace", "1");
        headers.put("empty", "");
        headers.put("none", null);
        List<Request> requests = new ArrayList<>();
        requests.add(new Request(to, "order-42", order, headers, due, "http://127.0.0.1:9/failed"));
        requests.add(new Request(to, "order-43", "some text", null, due, null));
        requests.add(new Request(to, "order-44", List.of(1, 2), Map.of("a", "b"), due, null));
        requests.add(new Request(to, "order-45", order, null, due, null));
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new JsonSerializer<Request>())) {
            for (Request request : requests) {
                producer.send(new ProducerRecord<>(topic, request.key(), request)).get();
            }
        }
    }
}
