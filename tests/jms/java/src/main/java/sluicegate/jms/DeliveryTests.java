package sluicegate.jms;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;

import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.jms.CompletionListener;
import javax.jms.DeliveryMode;
import javax.jms.JMSConsumer;
import javax.jms.JMSProducer;
import javax.jms.Message;
import javax.jms.TemporaryQueue;
import javax.jms.TemporaryTopic;
import org.junit.Test;

public class DeliveryTests extends JmsTest {

    @Override
    String attributes() {
        return "\"respect_msg_priority_enabled\": true, \"respect_ttl_enabled\": true";
    }

    @Test
    public void aDelayedMessageComesLater() throws Exception {
        long sent = System.currentTimeMillis();
        context.createProducer().setDeliveryDelay(1500).send(queue, "later");
        send("now");
        JMSConsumer consumer = context.createConsumer(queue);
        assertEquals("now", consumer.receive(SOON).getBody(String.class));
        Message later = consumer.receive(SOON);
        assertEquals("later", later.getBody(String.class));
        assertTrue(System.currentTimeMillis() >= sent + 1500);
        assertTrue(later.getJMSDeliveryTime() >= sent + 1500);
    }

    @Test
    public void aDelayedMessageOfATopicComesLater() throws Exception {
        JMSConsumer consumer = context.createConsumer(topic);
        long sent = System.currentTimeMillis();
        context.createProducer().setDeliveryDelay(1000).send(topic, "later");
        assertEquals("later", consumer.receive(SOON).getBody(String.class));
        assertTrue(System.currentTimeMillis() >= sent + 1000);
    }

    @Test
    public void anExpiredMessageIsNotDelivered() throws Exception {
        context.createProducer().setTimeToLive(50).send(queue, "short");
        context.createProducer().setTimeToLive(3_600_000).send(queue, "long");
        Thread.sleep(300);
        JMSConsumer consumer = context.createConsumer(queue);
        Message message = consumer.receive(SOON);
        assertEquals("long", message.getBody(String.class));
        assertTrue(message.getJMSExpiration() > System.currentTimeMillis());
        assertNull(consumer.receive(NEVER));
    }

    @Test
    public void higherPrioritiesComeFirst() throws Exception {
        for (int priority : new int[] {1, 9, 4}) {
            context.createProducer().setPriority(priority).send(queue, "p" + priority);
        }
        assertEquals(List.of("p9", "p4", "p1"), receive(context.createConsumer(queue), 3));
    }

    @Test
    public void messagesThatAreNotPersistentArrive() throws Exception {
        context.createProducer().setDeliveryMode(DeliveryMode.NON_PERSISTENT).send(queue, "a");
        Message message = context.createConsumer(queue).receive(SOON);
        assertEquals("a", message.getBody(String.class));
        assertEquals(DeliveryMode.NON_PERSISTENT, message.getJMSDeliveryMode());
    }

    @Test
    public void anAsynchronousSendIsCompleted() throws Exception {
        CountDownLatch completed = new CountDownLatch(100);
        JMSProducer producer = context.createProducer().setAsync(new CompletionListener() {
            @Override
            public void onCompletion(Message message) {
                completed.countDown();
            }

            @Override
            public void onException(Message message, Exception exception) {
            }
        });
        for (int number = 0; number < 100; number++) {
            producer.send(queue, "a");
        }
        assertTrue(completed.await(SOON, TimeUnit.MILLISECONDS));
    }

    @Test
    public void aTemporaryQueueTakesReplies() throws Exception {
        TemporaryQueue replies = context.createTemporaryQueue();
        JMSConsumer consumer = context.createConsumer(replies);
        context.createProducer().setJMSReplyTo(replies).setJMSCorrelationID("7").send(queue, "question");
        Message question = context.createConsumer(queue).receive(SOON);
        context.createProducer().setJMSCorrelationID(question.getJMSCorrelationID())
                .send(question.getJMSReplyTo(), "answer");
        Message answer = consumer.receive(SOON);
        assertEquals("answer", answer.getBody(String.class));
        assertEquals("7", answer.getJMSCorrelationID());
    }

    @Test
    public void aTemporaryTopicReachesSubscribers() throws Exception {
        TemporaryTopic news = context.createTemporaryTopic();
        JMSConsumer first = context.createConsumer(news);
        JMSConsumer second = context.createConsumer(news);
        context.createProducer().send(news, "a");
        assertEquals("a", first.receive(SOON).getBody(String.class));
        assertEquals("a", second.receive(SOON).getBody(String.class));
    }
}
