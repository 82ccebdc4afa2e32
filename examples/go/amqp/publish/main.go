// Publish sends twelve orders of three customers; the orders of a customer stay in their order.
package main

import (
	"context"
	"fmt"
	"log"

	"example.org/orders/internal/amqpbroker"
	"github.com/Azure/go-amqp"
)

func main() {
	if err := publish(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func publish(ctx context.Context) error {
	conn, session, err := amqpbroker.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	sender, err := session.NewSender(ctx, "orders/eu", &amqp.SenderOptions{TargetCapabilities: []string{"topic"}})
	if err != nil {
		return err
	}
	for number := 1; number <= 12; number++ {
		customer := fmt.Sprintf("customer-%d", number%3+1)
		order := amqpbroker.Keyed(customer, fmt.Sprintf("order %d", number))
		// Send returns when the broker has stored the order. SendWithReceipt does not wait for that.
		if err := sender.Send(ctx, order, nil); err != nil {
			return err
		}
	}
	fmt.Println("12 orders published")
	return nil
}
