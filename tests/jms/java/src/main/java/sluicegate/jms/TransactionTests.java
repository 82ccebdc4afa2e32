package sluicegate.jms;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;

import java.util.List;
import javax.jms.JMSConsumer;
import javax.jms.JMSContext;
import javax.jms.Message;
import org.junit.Test;

public class TransactionTests extends JmsTest {

    @Test
    public void nothingIsSeenBeforeTheCommit() throws Exception {
        JMSContext session = connect(JMSContext.SESSION_TRANSACTED);
        JMSConsumer consumer = context.createConsumer(queue);
        session.createProducer().send(queue, "a");
        session.createProducer().send(queue, "b");
        assertNull(consumer.receive(NEVER));
        session.commit();
        assertEquals(List.of("a", "b"), receive(consumer, 2));
    }

    @Test
    public void aRollbackTakesBackWhatWasSent() throws Exception {
        JMSContext session = connect(JMSContext.SESSION_TRANSACTED);
        session.createProducer().send(queue, "a");
        session.rollback();
        session.createProducer().send(queue, "b");
        session.commit();
        JMSConsumer consumer = context.createConsumer(queue);
        assertEquals(List.of("b"), receive(consumer, 1));
        assertNull(consumer.receive(NEVER));
    }

    @Test
    public void aRollbackDeliversAgainInOrder() throws Exception {
        send("a", "b", "c");
        JMSContext session = connect(JMSContext.SESSION_TRANSACTED);
        JMSConsumer consumer = session.createConsumer(queue);
        assertEquals(List.of("a", "b"), receive(consumer, 2));
        session.rollback();
        Message first = consumer.receive(SOON);
        assertEquals("a", first.getBody(String.class));
        assertTrue(first.getJMSRedelivered());
        assertEquals(List.of("b", "c"), receive(consumer, 2));
        session.commit();
        assertNull(context.createConsumer(queue).receive(NEVER));
    }

    @Test
    public void takingAndSendingIsOne() throws Exception {
        send("order");
        JMSContext session = connect(JMSContext.SESSION_TRANSACTED);
        JMSConsumer listener = context.createConsumer(topic);
        Message order = session.createConsumer(queue).receive(SOON);
        session.createProducer().send(topic, "invoice for " + order.getBody(String.class));
        assertNull(listener.receive(NEVER));
        session.commit();
        assertEquals("invoice for order", listener.receive(SOON).getBody(String.class));
        session.close();
        assertNull(context.createConsumer(queue).receive(NEVER));
    }

    @Test
    public void aClosedSessionIsRolledBack() throws Exception {
        send("a");
        JMSContext session = connect(JMSContext.SESSION_TRANSACTED);
        session.createConsumer(queue).receive(SOON);
        session.createProducer().send(queue, "b");
        session.close();
        JMSConsumer consumer = context.createConsumer(queue);
        assertEquals(List.of("a"), receive(consumer, 1));
        assertNull(consumer.receive(NEVER));
    }

    @Test
    public void oneTransactionAfterAnother() throws Exception {
        JMSContext session = connect(JMSContext.SESSION_TRANSACTED);
        for (int number = 0; number < 50; number++) {
            session.createProducer().send(queue, "m" + number);
            session.commit();
        }
        assertEquals(50, receive(context.createConsumer(queue), 50).size());
    }
}
