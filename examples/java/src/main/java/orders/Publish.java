package orders;

import jakarta.jms.JMSContext;
import jakarta.jms.JMSProducer;
import jakarta.jms.Topic;

/** Publishes twelve orders of three customers; the orders of a customer stay in their order. */
public class Publish {

    public static void main(String[] args) {
        try (JMSContext context = Broker.connections().createContext()) {
            Topic topic = context.createTopic("orders/eu");
            JMSProducer producer = context.createProducer();
            for (int number = 1; number <= 12; number++) {
                // The partition key. send() returns when the broker has stored the order.
                producer.setProperty("JMSXGroupID", "customer-" + (number % 3 + 1));
                producer.send(topic, "order " + number);
            }
        }
        System.out.println("12 orders published");
    }
}
