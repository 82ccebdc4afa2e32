package orders;

import java.util.concurrent.CountDownLatch;
import org.springframework.boot.ApplicationArguments;
import org.springframework.boot.ApplicationRunner;
import org.springframework.context.annotation.Profile;
import org.springframework.jms.annotation.JmsListener;
import org.springframework.jms.core.JmsTemplate;
import org.springframework.stereotype.Component;

/**
 * Lets an order fail that nobody can work on, and finds it in the dead message queue. Each exception of the listener is
 * a failure; after max_redelivery_count of them the queue gives up.
 */
@Component
@Profile("dead_messages")
class DeadMessages implements ApplicationRunner {

    private final JmsTemplate jms;
    private final CountDownLatch found = new CountDownLatch(1);

    DeadMessages(JmsTemplate jms) {
        this.jms = jms;
    }

    @Override
    public void run(ApplicationArguments arguments) throws InterruptedException {
        jms.convertAndSend("orders", "no order at all", message -> {
            message.setStringProperty("JMSXGroupID", "customer-4");
            return message;
        });
        found.await();
    }

    @JmsListener(destination = "orders")
    void work(String order) {
        if (!order.startsWith("order ")) {
            System.out.println("failed: " + order);
            throw new IllegalArgumentException("no order");
        }
        System.out.println("done: " + order);
    }

    /** The reason is an annotation, which JMS does not show. A selector sees it. */
    @JmsListener(destination = "dead", selector = "\"sluicegate-dead-reason\" = 'max_redelivery_exceeded'")
    void lookAt(String dead) {
        System.out.println("dead: " + dead + " (max_redelivery_exceeded)");
        found.countDown();
    }
}
