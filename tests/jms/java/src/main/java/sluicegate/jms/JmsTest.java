package sluicegate.jms;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.JMSConsumer;
import javax.jms.JMSContext;
import javax.jms.Message;
import javax.jms.Queue;
import javax.jms.Topic;
import org.junit.After;
import org.junit.Before;

/** A queue and a topic of one test alone, and a context for it. */
public abstract class JmsTest {

    static final long SOON = 10_000; // ms: it comes
    static final long NEVER = 300; // ms: it does not come, as far as we wait
    private static final AtomicInteger COUNT = new AtomicInteger();

    final String name = getClass().getSimpleName() + COUNT.incrementAndGet();
    private final List<JMSContext> opened = new ArrayList<>();
    JMSContext context;
    Queue queue;
    Topic topic;

    @Before
    public void open() {
        Broker.createQueue(name, attributes());
        context = connect(JMSContext.AUTO_ACKNOWLEDGE);
        queue = context.createQueue(name);
        topic = context.createTopic("topics/" + name);
    }

    @After
    public void close() {
        opened.forEach(JMSContext::close);
        Broker.deleteQueue(name);
    }

    /** Attributes of the queue, as members of a JSON object. */
    String attributes() {
        return "";
    }

    /** Opens a connection of its own. */
    JMSContext connect(int mode) {
        JMSContext opening = Broker.connections().createContext(mode);
        opened.add(opening);
        return opening;
    }

    JMSContext connectAs(String clientId) {
        JMSContext opening = Broker.connections().createContext();
        opening.setClientID(clientId);
        opened.add(opening);
        return opening;
    }

    void send(String... texts) {
        for (String text : texts) {
            context.createProducer().send(queue, text);
        }
    }

    void publish(String... texts) {
        for (String text : texts) {
            context.createProducer().send(topic, text);
        }
    }

    static List<String> receive(JMSConsumer consumer, int count) throws Exception {
        List<String> texts = new ArrayList<>();
        while (texts.size() < count) {
            Message message = consumer.receive(SOON);
            if (message == null) {
                break;
            }
            texts.add(message.getBody(String.class));
        }
        return texts;
    }
}
