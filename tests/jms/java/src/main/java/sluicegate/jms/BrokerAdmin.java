package sluicegate.jms;

import java.util.Properties;
import javax.naming.Context;
import javax.naming.InitialContext;
import javax.naming.NamingException;
import org.objectweb.jtests.jms.admin.Admin;

/** What the tests of Joram ask of a provider. The directory of names is the client's own: the broker has none. */
public class BrokerAdmin implements Admin {

    private final Properties names = new Properties();

    @Override
    public String getName() {
        return "Sluicegate";
    }

    @Override
    public Context createContext() throws NamingException {
        names.setProperty(Context.INITIAL_CONTEXT_FACTORY, "org.apache.qpid.jms.jndi.JmsInitialContextFactory");
        return new InitialContext(names);
    }

    @Override
    public void createConnectionFactory(String name) {
        names.setProperty("connectionfactory." + name, Broker.AMQP_URL);
    }

    @Override
    public void createQueueConnectionFactory(String name) {
        createConnectionFactory(name);
    }

    @Override
    public void createTopicConnectionFactory(String name) {
        createConnectionFactory(name);
    }

    @Override
    public void createQueue(String name) {
        Broker.deleteQueue(name); // a test that failed may have left it
        Broker.createQueue(name, "");
        names.setProperty("queue." + name, name);
    }

    @Override
    public void createTopic(String name) {
        names.setProperty("topic." + name, name); // topics need no creation
    }

    @Override
    public void deleteQueue(String name) {
        Broker.deleteQueue(name);
    }

    @Override
    public void deleteTopic(String name) {
    }

    @Override
    public void deleteConnectionFactory(String name) {
    }

    @Override
    public void deleteQueueConnectionFactory(String name) {
    }

    @Override
    public void deleteTopicConnectionFactory(String name) {
    }

    @Override
    public void startServer() {
    }

    @Override
    public void stopServer() {
    }

    @Override
    public void start() {
    }

    @Override
    public void stop() {
    }
}
