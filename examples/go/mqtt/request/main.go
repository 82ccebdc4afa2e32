// Request asks for the price of an apple, and prints the answer.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"time"

	"example.org/orders/internal/mqttbroker"
	"github.com/eclipse/paho.golang/paho"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := request(ctx); err != nil {
		log.Fatal(err)
	}
}

func request(ctx context.Context) error {
	answers := make(chan *paho.Publish, 1)
	handle := func(received paho.PublishReceived) { answers <- received.Packet }
	responseTopic := "answers/" + rand.Text()
	manager, err := mqttbroker.Connect(ctx, handle, responseTopic)
	if err != nil {
		return err
	}
	isText := byte(1)
	question := &paho.Publish{
		Topic:   "$queue/prices",
		QoS:     1,
		Payload: []byte("apple"),
		Properties: &paho.PublishProperties{
			ResponseTopic:   responseTopic,
			CorrelationData: []byte("1"),
			PayloadFormat:   &isText,
		},
	}
	if _, err := manager.Publish(ctx, question); err != nil {
		return err
	}
	select {
	case answer := <-answers:
		fmt.Printf("apple: %s\n", answer.Payload)
	case <-ctx.Done():
		return ctx.Err()
	}
	return manager.Disconnect(ctx)
}
