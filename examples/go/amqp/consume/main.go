// Consume works on orders until Ctrl-C. Start as many of these as you like: they share the queue by customers.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"

	"example.org/orders/internal/amqpbroker"
	"github.com/Azure/go-amqp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := consume(ctx); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func consume(ctx context.Context) error {
	conn, session, err := amqpbroker.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// Credit is how many orders it holds at once; no other worker has them.
	receiver, err := session.NewReceiver(ctx, "orders", &amqp.ReceiverOptions{Credit: 10})
	if err != nil {
		return err
	}
	for {
		order, err := receiver.Receive(ctx, nil)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %s\n", amqpbroker.Key(order), amqpbroker.Text(order))
		// Before this, the order comes again if the worker dies.
		if err := receiver.AcceptMessage(ctx, order); err != nil {
			return err
		}
	}
}
