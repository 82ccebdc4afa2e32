// Dead_messages rejects an order that nobody can work on, and finds it in the dead message queue.
package main

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"example.org/orders/internal/amqpbroker"
	"github.com/Azure/go-amqp"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	conn, session, err := amqpbroker.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	sender, err := session.NewSender(ctx, "orders", nil)
	if err != nil {
		return err
	}
	if err := sender.Send(ctx, amqpbroker.Keyed("customer-4", "no order at all"), nil); err != nil {
		return err
	}
	if err := workUntilOneIsRejected(ctx, session); err != nil {
		return err
	}
	dead, err := session.NewReceiver(ctx, "dead", &amqp.ReceiverOptions{Credit: 1})
	if err != nil {
		return err
	}
	message, err := dead.Receive(ctx, nil)
	if err != nil {
		return err
	}
	fmt.Printf("dead: %s (%s)\n", amqpbroker.Text(message), message.Annotations["x-opt-sluicegate-dead-reason"])
	return dead.AcceptMessage(ctx, message)
}

func workUntilOneIsRejected(ctx context.Context, session *amqp.Session) error {
	receiver, err := session.NewReceiver(ctx, "orders", &amqp.ReceiverOptions{Credit: 1})
	if err != nil {
		return err
	}
	defer receiver.Close(ctx)
	for {
		order, err := receiver.Receive(ctx, nil)
		if err != nil {
			return err
		}
		text := amqpbroker.Text(order)
		if !strings.HasPrefix(text, "order ") {
			fmt.Printf("rejected: %s\n", text)
			// ModifyMessage with DeliveryFailed would give it one more try.
			return receiver.RejectMessage(ctx, order, &amqp.Error{Condition: "orders:unreadable"})
		}
		fmt.Printf("done: %s\n", text)
		if err := receiver.AcceptMessage(ctx, order); err != nil {
			return err
		}
	}
}
