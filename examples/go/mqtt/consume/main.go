// Consume works on orders until Ctrl-C. Start as many of these as you like: they share the queue by customers.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"example.org/orders/internal/mqttbroker"
	"github.com/eclipse/paho.golang/paho"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	manager, err := mqttbroker.Connect(ctx, work, "$queue/orders")
	if err != nil {
		log.Fatal(err)
	}
	<-manager.Done()
}

func work(received paho.PublishReceived) {
	order := received.Packet
	fmt.Printf("%s: %s\n", order.Properties.User.Get("JMSXGroupID"), order.Payload)
	// Before this, the order comes again if the worker dies.
	if err := received.Client.Ack(order); err != nil {
		log.Print(err)
	}
}
