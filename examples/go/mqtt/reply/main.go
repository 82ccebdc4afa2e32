// Reply answers questions for prices until Ctrl-C. Several of these share the questions.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"

	"example.org/orders/internal/mqttbroker"
	"github.com/eclipse/paho.golang/paho"
)

var prices = map[string]string{"apple": "0.30", "pear": "0.45"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	questions := make(chan paho.PublishReceived, 100)
	handle := func(received paho.PublishReceived) { questions <- received }
	manager, err := mqttbroker.Connect(ctx, handle, "$queue/prices")
	if err != nil {
		log.Fatal(err)
	}
	for {
		select {
		case received := <-questions:
			if received.Packet.Properties.ResponseTopic != "" { // otherwise nobody waits for an answer
				response, err := manager.Publish(ctx, answer(received.Packet))
				if err != nil && response == nil {
					log.Fatal(err) // the question is not acknowledged: the broker gives it to another worker
				} else if err != nil {
					log.Print("answer not stored: ", err) // whoever asked may be gone
				}
			}
			if err := received.Client.Ack(received.Packet); err != nil {
				log.Print(err)
			}
		case <-manager.Done():
			return
		}
	}
}

func answer(question *paho.Publish) *paho.Publish {
	price, ok := prices[string(question.Payload)]
	if !ok {
		price = "unknown"
	}
	isText := byte(1)
	return &paho.Publish{
		Topic:   question.Properties.ResponseTopic, // may be a queue of an AMQP client
		QoS:     1,
		Payload: []byte(price),
		Properties: &paho.PublishProperties{
			CorrelationData: question.Properties.CorrelationData,
			PayloadFormat:   &isText,
		},
	}
}
