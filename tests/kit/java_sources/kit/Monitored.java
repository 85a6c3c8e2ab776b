package kit;

import java.lang.management.ManagementFactory;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.management.MXBean;
import javax.management.ObjectName;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** A source without records whose task registers MBeans as Debezium's do; `bad` adds one that throws and one that hangs. */
public class Monitored extends SourceConnector {
    private Map<String, String> config;

    @MXBean
    public interface Streaming {
        long getMilliSecondsBehindSource();

        boolean isConnected();

        String getLastEvent();

        Map<String, Long> getRowsScanned();

        double getNothing();
    }

    public interface ThrowingMBean {
        int getGood();

        int getBroken();
    }

    public static class Throwing implements ThrowingMBean {
        @Override
        public int getGood() {
            return 1;
        }

        @Override
        public int getBroken() {
            throw new IllegalStateException("the gauge is broken");
        }
    }

    public interface HangingMBean {
        int getNever();
    }

    public static class Hanging implements HangingMBean {
        @Override
        public int getNever() {
            while (true) {
                try {
                    Thread.sleep(60_000);
                } catch (InterruptedException e) {
                    continue;
                }
            }
        }
    }

    public static class Moving implements Streaming {
        private final long began = System.nanoTime();

        @Override
        public long getMilliSecondsBehindSource() {
            return (System.nanoTime() - began) / 1_000_000;
        }

        @Override
        public boolean isConnected() {
            return true;
        }

        @Override
        public String getLastEvent() {
            return "a row";
        }

        @Override
        public Map<String, Long> getRowsScanned() {
            Map<String, Long> found = new LinkedHashMap<>();
            found.put("shop.customers", 3L);
            found.put("shop.orders", 5L);
            return found;
        }

        @Override
        public double getNothing() {
            return Double.NaN;
        }
    }

    public static class MonitoredTask extends SourceTask {
        private final List<ObjectName> names = new java.util.ArrayList<>();

        @Override
        public String version() {
            return "1";
        }

        @Override
        public void start(Map<String, String> config) {
            String server = "server=" + config.get("name");
            register("debezium.kit:type=connector-metrics,context=streaming," + server, new Moving());
            register("other.kit:type=hidden," + server, new Throwing());
            if (!config.containsKey("bad")) return;
            register("debezium.kit:type=connector-metrics,context=throwing," + server, new Throwing());
            register("debezium.kit:type=connector-metrics,context=hanging," + server, new Hanging());
        }

        /** On a thread of the plugin's own, as Debezium's coordinator does it. */
        private void register(String name, Object bean) {
            Thread thread = new Thread(() -> {
                try {
                    names.add(ManagementFactory.getPlatformMBeanServer().registerMBean(bean, new ObjectName(name)).getObjectName());
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            });
            thread.start();
            try {
                thread.join();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(50);
            return null;
        }

        @Override
        public void stop() {
            for (ObjectName name : names) {
                try {
                    ManagementFactory.getPlatformMBeanServer().unregisterMBean(name);
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            }
        }
    }

    @Override
    public String version() {
        return "1";
    }

    @Override
    public void start(Map<String, String> given) {
        config = given;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return MonitoredTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        return List.of(config);
    }

    @Override
    public void stop() {}

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }
}
