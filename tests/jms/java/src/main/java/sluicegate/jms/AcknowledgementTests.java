package sluicegate.jms;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;

import java.util.List;
import javax.jms.JMSConsumer;
import javax.jms.JMSContext;
import javax.jms.Message;
import org.junit.Test;

public class AcknowledgementTests extends JmsTest {

    @Override
    String attributes() {
        return "\"max_redelivery_count\": 2";
    }

    @Test
    public void whatIsNotAcknowledgedComesAgain() throws Exception {
        send("a", "b");
        JMSContext first = connect(JMSContext.CLIENT_ACKNOWLEDGE);
        JMSConsumer consumer = first.createConsumer(queue);
        consumer.receive(SOON).acknowledge();
        Message message = consumer.receive(SOON);
        assertFalse(message.getJMSRedelivered());
        first.close();
        Message again = context.createConsumer(queue).receive(SOON);
        assertEquals("b", again.getBody(String.class));
    }

    @Test
    public void recoverDeliversAgainInOrderAndSaysSo() throws Exception {
        send("a", "b");
        JMSContext session = connect(JMSContext.CLIENT_ACKNOWLEDGE);
        JMSConsumer consumer = session.createConsumer(queue);
        assertEquals(List.of("a", "b"), receive(consumer, 2));
        session.recover();
        Message first = consumer.receive(SOON);
        assertEquals("a", first.getBody(String.class));
        assertTrue(first.getJMSRedelivered());
        assertEquals(2, first.getIntProperty("JMSXDeliveryCount"));
        Message second = consumer.receive(SOON);
        assertEquals("b", second.getBody(String.class));
        second.acknowledge();
        assertNull(consumer.receive(NEVER));
    }

    @Test
    public void aMessageThatAlwaysFailsIsGivenUp() throws Exception {
        send("a");
        JMSContext session = connect(JMSContext.SESSION_TRANSACTED);
        JMSConsumer consumer = session.createConsumer(queue);
        for (int tries = 1; tries <= 3; tries++) {
            assertEquals(tries, consumer.receive(SOON).getIntProperty("JMSXDeliveryCount"));
            session.rollback();
        }
        assertNull(consumer.receive(NEVER));
    }

    @Test
    public void duplicatesMayBeAcknowledgedLater() throws Exception {
        send("a", "b", "c");
        JMSContext session = connect(JMSContext.DUPS_OK_ACKNOWLEDGE);
        assertEquals(List.of("a", "b", "c"), receive(session.createConsumer(queue), 3));
        session.close();
        assertNull(context.createConsumer(queue).receive(NEVER));
    }
}
