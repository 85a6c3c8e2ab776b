package kit;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import javax.management.JMException;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.transforms.Transformation;

/** Writes down, once, which metrics of plugins JMX shows of a connector: name of the bean, space, attribute. */
public class Beans<R extends ConnectRecord<R>> implements Transformation<R> {
    private Path file;
    private String connector;

    @Override
    public void configure(Map<String, ?> config) {
        file = Path.of((String) config.get("file"));
        connector = (String) config.get("connector");
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
                .define("file", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Where it writes.")
                .define("connector", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Of which connector.");
    }

    @Override
    public R apply(R record) {
        if (Files.exists(file)) return record;
        Set<String> lines = new TreeSet<>();
        MBeanServer beans = ManagementFactory.getPlatformMBeanServer();
        try {
            for (ObjectName name : beans.queryNames(new ObjectName("kafka.connect:type=plugins,connector=" + connector + ",*"), null)) {
                for (MBeanAttributeInfo attribute : beans.getMBeanInfo(name).getAttributes()) {
                    lines.add(name + " " + attribute.getName());
                }
            }
            Files.write(file, lines);
        } catch (JMException | IOException e) {
            throw new ConnectException(e);
        }
        return record;
    }

    @Override
    public void close() {}
}
