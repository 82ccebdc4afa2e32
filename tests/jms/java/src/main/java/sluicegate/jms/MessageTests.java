package sluicegate.jms;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import javax.jms.BytesMessage;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.ObjectMessage;
import javax.jms.StreamMessage;
import javax.jms.TextMessage;
import org.junit.Test;

public class MessageTests extends JmsTest {

    private Message through(Message message) {
        context.createProducer().send(queue, message);
        return context.createConsumer(queue).receive(SOON);
    }

    @Test
    public void text() throws Exception {
        Message message = through(context.createTextMessage("grün \uD83D\uDE80"));
        assertTrue(message instanceof TextMessage);
        assertEquals("grün \uD83D\uDE80", ((TextMessage) message).getText());
    }

    @Test
    public void textThatIsNull() throws Exception {
        assertNull(((TextMessage) through(context.createTextMessage())).getText());
    }

    @Test
    public void bytes() throws Exception {
        BytesMessage message = context.createBytesMessage();
        message.writeInt(7);
        message.writeUTF("text");
        message.writeDouble(0.5);
        BytesMessage received = (BytesMessage) through(message);
        assertEquals(7, received.readInt());
        assertEquals("text", received.readUTF());
        assertEquals(0.5, received.readDouble(), 0);
    }

    @Test
    public void map() throws Exception {
        MapMessage message = context.createMapMessage();
        message.setLong("long", Long.MAX_VALUE);
        message.setChar("char", 'x');
        message.setFloat("float", 1.5f);
        message.setBytes("bytes", new byte[] {0, -1});
        message.setString("null", null);
        MapMessage received = (MapMessage) through(message);
        assertEquals(Long.MAX_VALUE, received.getLong("long"));
        assertEquals('x', received.getChar("char"));
        assertEquals(1.5f, received.getFloat("float"), 0);
        assertArrayEquals(new byte[] {0, -1}, received.getBytes("bytes"));
        assertTrue(received.itemExists("null"));
    }

    @Test
    public void stream() throws Exception {
        StreamMessage message = context.createStreamMessage();
        message.writeByte((byte) 1);
        message.writeShort((short) 2);
        message.writeBoolean(true);
        message.writeString("text");
        StreamMessage received = (StreamMessage) through(message);
        assertEquals(1, received.readByte());
        assertEquals(2, received.readShort());
        assertTrue(received.readBoolean());
        assertEquals("text", received.readString());
    }

    @Test
    public void object() throws Exception {
        ObjectMessage message = context.createObjectMessage(new ArrayList<>(List.of(1, "two")));
        assertEquals(List.of(1, "two"), ((ObjectMessage) through(message)).getObject());
    }

    @Test
    public void withoutBody() throws Exception {
        Message received = through(context.createMessage());
        assertFalse(received instanceof TextMessage);
        assertNull(received.getBody(Map.class));
    }

    @Test
    public void large() throws Exception {
        byte[] content = new byte[3_000_000];
        content[2_999_999] = 7;
        BytesMessage message = context.createBytesMessage();
        message.writeBytes(content);
        assertArrayEquals(content, through(message).getBody(byte[].class));
    }

    @Test
    public void propertiesOfEveryType() throws Exception {
        Message message = context.createTextMessage("a");
        message.setBooleanProperty("boolean", true);
        message.setByteProperty("byte", (byte) 1);
        message.setShortProperty("short", (short) 2);
        message.setIntProperty("int", 3);
        message.setLongProperty("long", 4);
        message.setFloatProperty("float", 1.5f);
        message.setDoubleProperty("double", 2.5);
        message.setStringProperty("string", "text");
        Message received = through(message);
        assertEquals(true, received.getObjectProperty("boolean"));
        assertEquals((byte) 1, received.getObjectProperty("byte"));
        assertEquals((short) 2, received.getObjectProperty("short"));
        assertEquals(3, received.getObjectProperty("int"));
        assertEquals(4L, received.getObjectProperty("long"));
        assertEquals(1.5f, received.getObjectProperty("float"));
        assertEquals(2.5, received.getObjectProperty("double"));
        assertEquals("text", received.getObjectProperty("string"));
    }

    @Test
    public void headers() throws Exception {
        Message message = context.createTextMessage("a");
        message.setJMSType("kind");
        message.setJMSCorrelationIDAsBytes(new byte[] {1, 2});
        message.setJMSReplyTo(topic);
        Message received = through(message);
        assertEquals("kind", received.getJMSType());
        assertArrayEquals(new byte[] {1, 2}, received.getJMSCorrelationIDAsBytes());
        assertEquals(topic, received.getJMSReplyTo());
        assertEquals(queue, received.getJMSDestination());
        assertEquals(message.getJMSMessageID(), received.getJMSMessageID());
        assertEquals(message.getJMSTimestamp(), received.getJMSTimestamp());
    }
}
