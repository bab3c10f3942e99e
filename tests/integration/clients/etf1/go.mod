module clients/etf1

go 1.22

require (
	github.com/confluentinc/confluent-kafka-go/v2 v2.3.0
	github.com/etf1/kafka-message-scheduler/clientlib v0.0.8
)
