package parity;

import java.util.Set;
import java.util.TreeSet;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** Prints the totals of a Java worker's tasks: connector, task, name and value, a line each; asks JMX on a port. */
public class TaskTotals {
    public static void main(String[] args) throws Exception {
        JMXServiceURL url = new JMXServiceURL("service:jmx:rmi:///jndi/rmi://127.0.0.1:" + args[0] + "/jmxrmi");
        try (JMXConnector connector = JMXConnectorFactory.connect(url)) {
            MBeanServerConnection server = connector.getMBeanServerConnection();
            Set<String> lines = new TreeSet<>();
            for (ObjectName name : server.queryNames(new ObjectName("kafka.connect:*"), null)) {
                if (name.getKeyProperty("task") == null) {
                    continue;
                }
                for (MBeanAttributeInfo attribute : server.getMBeanInfo(name).getAttributes()) {
                    if (attribute.getName().endsWith("-total") || name.getKeyProperty("type").equals("task-error-metrics")) {
                        Object value = server.getAttribute(name, attribute.getName());
                        String task = name.getKeyProperty("connector") + "\t" + name.getKeyProperty("task");
                        lines.add(task + "\t" + attribute.getName() + "\t" + value);
                    }
                }
            }
            lines.forEach(System.out::println);
        }
    }
}
