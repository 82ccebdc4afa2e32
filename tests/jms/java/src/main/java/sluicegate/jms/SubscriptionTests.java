package sluicegate.jms;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;

import java.util.ArrayList;
import java.util.List;
import javax.jms.InvalidDestinationRuntimeException;
import javax.jms.JMSConsumer;
import javax.jms.JMSContext;
import javax.jms.JMSRuntimeException;
import javax.jms.Message;
import org.junit.Test;

public class SubscriptionTests extends JmsTest {

    @Test
    public void eachSubscriberGetsEachMessage() throws Exception {
        JMSConsumer first = context.createConsumer(topic);
        JMSConsumer second = connect(JMSContext.AUTO_ACKNOWLEDGE).createConsumer(topic);
        publish("a", "b");
        assertEquals(List.of("a", "b"), receive(first, 2));
        assertEquals(List.of("a", "b"), receive(second, 2));
    }

    @Test
    public void aDurableSubscriptionCollectsWhileItsClientIsAway() throws Exception {
        JMSContext before = connectAs(name);
        before.createDurableConsumer(topic, "s");
        before.close();
        publish("a", "b");
        JMSContext after = connectAs(name);
        JMSConsumer consumer = after.createDurableConsumer(topic, "s");
        assertEquals(List.of("a", "b"), receive(consumer, 2));
        consumer.close();
        after.unsubscribe("s");
    }

    @Test
    public void aDurableSubscriptionEndsByItsName() throws Exception {
        JMSContext client = connectAs(name);
        client.createDurableConsumer(topic, "s").close();
        client.unsubscribe("s");
        publish("a");
        JMSConsumer consumer = client.createDurableConsumer(topic, "s");
        assertNull(consumer.receive(NEVER));
        consumer.close();
        client.unsubscribe("s");
    }

    @Test
    public void anotherSelectorBeginsADurableSubscriptionAnew() throws Exception {
        JMSContext client = connectAs(name);
        client.createDurableConsumer(topic, "s", "n = 1", false).close();
        context.createProducer().setProperty("n", 1).send(topic, "old");
        JMSConsumer consumer = client.createDurableConsumer(topic, "s", "n = 2", false);
        context.createProducer().setProperty("n", 2).send(topic, "new");
        assertEquals(List.of("new"), receive(consumer, 1));
        consumer.close();
        client.unsubscribe("s");
    }

    @Test
    public void aSubscriptionThatDoesNotExistCannotBeEnded() {
        JMSContext client = connectAs(name);
        assertThrows(InvalidDestinationRuntimeException.class, () -> client.unsubscribe("nothing"));
    }

    @Test
    public void aSubscriptionInUseCannotBeEnded() {
        JMSContext client = connectAs(name);
        JMSConsumer consumer = client.createDurableConsumer(topic, "s");
        assertThrows(JMSRuntimeException.class, () -> client.unsubscribe("s"));
        consumer.close();
        client.unsubscribe("s");
    }

    @Test
    public void aClientIdIsForOneConnection() {
        JMSContext client = connectAs(name);
        client.start();
        assertThrows(JMSRuntimeException.class, () -> connectAs(name).start());
    }

    @Test
    public void noLocalLeavesOutOwnMessages() throws Exception {
        JMSContext client = connectAs(name);
        JMSConsumer consumer = client.createConsumer(topic, null, true);
        client.createProducer().send(topic, "own");
        publish("other");
        assertEquals(List.of("other"), receive(consumer, 1));
        assertNull(consumer.receive(NEVER));
    }

    @Test
    public void consumersShareASubscription() throws Exception {
        JMSConsumer first = context.createSharedConsumer(topic, "s");
        JMSConsumer second = connect(JMSContext.AUTO_ACKNOWLEDGE).createSharedConsumer(topic, "s");
        publish("a", "b", "c", "d");
        assertSharedBetween(first, second, 4);
    }

    @Test
    public void consumersOfOneClientIdShareASubscription() throws Exception {
        JMSContext client = connectAs(name);
        JMSConsumer first = client.createSharedConsumer(topic, "s");
        JMSConsumer second = client.createContext(JMSContext.AUTO_ACKNOWLEDGE).createSharedConsumer(topic, "s");
        publish("a", "b", "c", "d");
        assertSharedBetween(first, second, 4);
    }

    @Test
    public void aSharedDurableSubscriptionCollectsWhileAllAreAway() throws Exception {
        JMSContext before = connect(JMSContext.AUTO_ACKNOWLEDGE);
        before.createSharedDurableConsumer(topic, name);
        before.close();
        publish("a", "b", "c", "d");
        JMSContext after = connect(JMSContext.AUTO_ACKNOWLEDGE);
        JMSConsumer consumer = after.createSharedDurableConsumer(topic, name);
        List<String> texts = receive(consumer, 4);
        texts.sort(null);
        assertEquals(List.of("a", "b", "c", "d"), texts);
        consumer.close();
        after.unsubscribe(name);
        publish("e");
        JMSConsumer anew = after.createSharedDurableConsumer(topic, name);
        assertNull(anew.receive(NEVER));
        anew.close();
        after.unsubscribe(name);
    }

    @Test
    public void aSharedSubscriptionInUseKeepsItsSelector() {
        JMSConsumer first = context.createSharedConsumer(topic, "s", "n = 1");
        assertNotNull(first);
        JMSContext other = connect(JMSContext.AUTO_ACKNOWLEDGE);
        assertThrows(JMSRuntimeException.class, () -> other.createSharedConsumer(topic, "s", "n = 2"));
    }

    private static void assertSharedBetween(JMSConsumer first, JMSConsumer second, int count) throws Exception {
        List<String> texts = new ArrayList<>();
        for (JMSConsumer consumer : List.of(first, second)) {
            Message message;
            while ((message = consumer.receive(NEVER)) != null) {
                texts.add(message.getBody(String.class));
            }
        }
        texts.sort(null);
        assertEquals(List.of("a", "b", "c", "d").subList(0, count), texts);
    }
}
