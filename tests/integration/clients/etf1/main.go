// Sends what etf1's own client library makes: main SERVERS TOPIC TO LEFT FAR, in seconds from its start, which
// may be minutes after that of its compilation, and in epoch seconds.
//
// A message with headers, one without a key, a retry, and one that is due much later and deleted.
package main

import (
	"log"
	"os"
	"strconv"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/etf1/kafka-message-scheduler/clientlib"
	"github.com/etf1/kafka-message-scheduler/clientlib/retry"
)

type pause time.Duration

func (p pause) DurationForAttempt(int) time.Duration { return time.Duration(p) }
func (p pause) Reset()                               {}

func main() {
	servers, topic, to := os.Args[1], os.Args[2], os.Args[3]
	due, far := time.Now().Unix()+seconds(os.Args[4]), seconds(os.Args[5])
	producer, err := kafka.NewProducer(&kafka.ConfigMap{"bootstrap.servers": servers})
	must(err)
	defer producer.Close()

	message := func(key []byte) *kafka.Message {
		headers := []kafka.Header{{Key: "customer-header", Value: []byte("dummy")}, {Key: "empty", Value: nil}}
		return &kafka.Message{
			TopicPartition: kafka.TopicPartition{Topic: &to},
			Key:            key,
			Value:          []byte("some value"),
			Headers:        headers,
			Timestamp:      time.Now(),
			TimestampType:  kafka.TimestampCreateTime,
		}
	}
	send := func(made *kafka.Message, err error) {
		must(err)
		reports := make(chan kafka.Event)
		must(producer.Produce(made, reports))
		must((<-reports).(*kafka.Message).TopicPartition.Error)
	}

	send(clientlib.Schedule(message([]byte("vid1")), "vid1-online", due, topic))
	send(clientlib.Schedule(message(nil), "keyless", due, topic))
	strategy := pause(time.Until(time.Unix(due, 0)))
	again := message([]byte("vid2"))
	again.Headers = append(again.Headers, kafka.Header{Key: "scheduler-key", Value: []byte("an earlier one")})
	send(clientlib.ScheduleRetry(again, "vid2-retry", topic, retry.NewConfig(retry.WithStrategy(strategy))))
	send(clientlib.Schedule(message([]byte("vid3")), "vid3-offline", far, topic))
	send(clientlib.DeleteSchedule("vid3-offline", topic))
}

func seconds(text string) int64 {
	number, err := strconv.ParseInt(text, 10, 64)
	must(err)
	return number
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
