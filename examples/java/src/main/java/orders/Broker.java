package orders;

import jakarta.jms.ConnectionFactory;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Where the broker is. */
final class Broker {

    private Broker() {
    }

    /**
     * Connections come back by themselves ("failover"). A consumer fetches ten messages ahead: what it holds, no other
     * consumer has.
     */
    static ConnectionFactory connections() {
        String url = System.getenv().getOrDefault("AMQP_URL", "amqp://127.0.0.1:5672");
        return new JmsConnectionFactory("failover:(" + url + ")?jms.prefetchPolicy.all=10");
    }
}
