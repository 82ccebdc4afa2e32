// Request asks for the price of an apple, and prints the answer.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"example.org/orders/internal/amqpbroker"
	"github.com/Azure/go-amqp"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := request(ctx); err != nil {
		log.Fatal(err)
	}
}

func request(ctx context.Context) error {
	conn, session, err := amqpbroker.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// A temporary queue of this connection, which the broker names.
	answers, err := session.NewReceiver(ctx, "", &amqp.ReceiverOptions{DynamicAddress: true, Credit: 1})
	if err != nil {
		return err
	}
	questions, err := session.NewSender(ctx, "prices", nil)
	if err != nil {
		return err
	}
	replyTo := answers.Address()
	question := &amqp.Message{
		Properties: &amqp.MessageProperties{ReplyTo: &replyTo, CorrelationID: "1"},
		Value:      "apple",
	}
	if err := questions.Send(ctx, question, nil); err != nil {
		return err
	}
	answer, err := answers.Receive(ctx, nil)
	if err != nil {
		return err
	}
	fmt.Printf("apple: %s\n", amqpbroker.Text(answer))
	return answers.AcceptMessage(ctx, answer)
}
