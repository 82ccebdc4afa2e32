package orders;

import org.springframework.boot.ApplicationArguments;
import org.springframework.boot.ApplicationRunner;
import org.springframework.context.annotation.Profile;
import org.springframework.jms.core.JmsTemplate;
import org.springframework.stereotype.Component;

/** Publishes twelve orders of three customers; the orders of a customer stay in their order. */
@Component
@Profile("publish")
class Publish implements ApplicationRunner {

    private final JmsTemplate jms;

    Publish(JmsTemplate jms) {
        this.jms = jms;
    }

    @Override
    public void run(ApplicationArguments arguments) {
        for (int number = 1; number <= 12; number++) {
            String customer = "customer-" + (number % 3 + 1);
            // Returns when the broker has stored the order.
            jms.convertAndSend("orders", "order " + number, message -> {
                message.setStringProperty("JMSXGroupID", customer); // the partition key
                return message;
            });
        }
        System.out.println("12 orders published");
    }
}
