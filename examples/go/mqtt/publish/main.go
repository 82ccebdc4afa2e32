// Publish sends twelve orders of three customers; the orders of a customer stay in their order.
package main

import (
	"context"
	"fmt"
	"log"

	"example.org/orders/internal/mqttbroker"
	"github.com/eclipse/paho.golang/paho"
)

func main() {
	if err := publish(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func publish(ctx context.Context) error {
	manager, err := mqttbroker.Connect(ctx, func(paho.PublishReceived) {})
	if err != nil {
		return err
	}
	for number := 1; number <= 12; number++ {
		customer := fmt.Sprintf("customer-%d", number%3+1)
		order := mqttbroker.Keyed("orders/eu", customer, fmt.Sprintf("order %d", number))
		// Publish returns at PUBACK: the broker has stored the order.
		if _, err := manager.Publish(ctx, order); err != nil {
			return err
		}
	}
	fmt.Println("12 orders published")
	return manager.Disconnect(ctx)
}
