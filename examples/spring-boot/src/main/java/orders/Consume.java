package orders;

import org.springframework.context.annotation.Profile;
import org.springframework.jms.annotation.JmsListener;
import org.springframework.messaging.handler.annotation.Header;
import org.springframework.stereotype.Component;

/**
 * Works on orders until Ctrl-C. Start as many of these as you like, or raise the concurrency: they share the queue by
 * customers. An order whose listener throws, or dies, comes again.
 */
@Component
@Profile("consume")
class Consume {

    @JmsListener(destination = "orders")
    void work(String order, @Header(name = "JMSXGroupID", required = false) String customer) {
        System.out.println((customer == null ? "no key" : customer) + ": " + order);
    }
}
